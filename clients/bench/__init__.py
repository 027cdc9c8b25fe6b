"""``footlights bench``: quality, speed and peers, measured the way a listener meets them."""
