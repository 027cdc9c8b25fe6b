"""A small network that tells made parameters from the teacher's, for the texture that a mean takes away."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.vocoder import NUM_CEPSTRA, Vocoder

MEL_BINS = 80


class Discriminator(nn.Module):
    """Patches of log spectrum [B, 1, T, 80] told from the teacher's; returns every layer for feature matching."""

    def __init__(self) -> None:
        super().__init__()
        channels = (2, 24, 48, 96, 96)
        self.layers = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(a, b, (5, 5), stride=(2, 2), padding=2))
            for a, b in zip(channels, channels[1:], strict=False)
        )
        self.last = nn.utils.parametrizations.weight_norm(nn.Conv2d(channels[-1], 1, 3, padding=1))

    def forward(self, x: Tensor) -> list[Tensor]:
        """``x`` [B, 1, T, 80]; its slope in time is a second channel."""
        slope = F.pad(x[:, :, 1:] - x[:, :, :-1], (0, 0, 1, 0))
        x = torch.cat([x, 2 * slope], 1)
        outputs = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            outputs.append(x)
        return [*outputs, self.last(x)]


class Critic:
    """The discriminator and what teaches it. It sees parameters [B, T, D] as log spectra."""

    def __init__(self, vocoder: Vocoder) -> None:
        index = (torch.linspace(0, 1, MEL_BINS) ** 1.7 * 512).round().long()
        self._to_log_spectrum = vocoder.get_buffer("envelope_basis")[:, index] / 6
        self.discriminator = Discriminator()
        self.optimiser = torch.optim.AdamW(self.discriminator.parameters(), lr=2e-4, betas=(0.8, 0.98))

    def log_spectrum(self, parameters: Tensor) -> Tensor:
        """[B, 1, T, 80], about unit range."""
        return (parameters[..., :NUM_CEPSTRA] @ self._to_log_spectrum + 2)[:, None]

    def learn(self, made: Tensor, target: Tensor) -> float:
        """One update of the discriminator; returns its loss (2: it tells nothing apart)."""
        real, fake = self.log_spectrum(target), self.log_spectrum(made.detach())
        loss = F.relu(1 - self.discriminator(real)[-1]).mean() + F.relu(1 + self.discriminator(fake)[-1]).mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.item()

    def losses(self, made: Tensor, target: Tensor) -> dict[str, Tensor]:
        """For what made ``made``: how clearly it is told from ``target``, and how far its features are."""
        self.discriminator.requires_grad_(False)
        judged = self.discriminator(self.log_spectrum(made))
        reference = self.discriminator(self.log_spectrum(target))
        self.discriminator.requires_grad_(True)
        far = [(a - b).abs().mean() for a, b in zip(judged[:-1], reference[:-1], strict=True)]
        return {"adversarial": -judged[-1].mean(), "matching": torch.stack(far).sum()}

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """The losses as one number to be lowered."""
        return losses["adversarial"] + 2 * losses["matching"]
