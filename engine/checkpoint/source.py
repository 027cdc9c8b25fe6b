"""Where a model comes from: a folder, or a repository on the Hugging Face hub that is fetched into its cache.

A repository is ``ORG/NAME`` or ``ORG/NAME@REVISION`` (a commit, a branch or a tag). What was fetched once is used from
then on, without a look at the hub: a name without a revision stays at the commit it first meant, until another
revision is asked for. Downloads show their progress; a broken connection is taken up where it broke, and after an
interruption the files that had arrived are kept.
"""

import os
import re
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from engine.errors import DownloadError

WANTED = (
    *("config.json", "*.safetensors", "*.safetensors.index.json", "codec.pth", "codec_config.json", "tokenizer*.json"),
    *("special_tokens_map.json", "chat_template.jinja", "LICENSE*", "NOTICE*", "README.md"),
)
"""What is fetched of a repository: never code."""

DEFAULT_REVISION = "main"
_REPOSITORY = re.compile(r"(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w./-]+))?")
_SNAPSHOT = re.compile(r"models--(?P<owner>.+)--(?P<name>.+)")


@dataclass(frozen=True)
class Repository:
    """A model on the hub."""

    name: str
    revision: str = DEFAULT_REVISION

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"{self.name}@{self.revision}"


def repository(model: str | os.PathLike[str]) -> Repository | None:
    """The repository that ``model`` names; None if it is a path: there is one, or it looks like none but a path."""
    text = os.fspath(model)
    match = _REPOSITORY.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    return Repository(match["name"], match["revision"] or DEFAULT_REVISION)


def find_model(model: str | os.PathLike[str]) -> Path:
    """The folder of a model, fetched if it is a repository that is not here yet.

    Raises ``DownloadError`` if that fails; it says what can be done.
    """
    wanted = repository(model)
    if wanted is None:
        return Path(model).expanduser()
    return _cached(wanted) or _fetch(wanted)


def model_name(folder: Path) -> str:
    """What to call the model of a folder: the folder's name, or that of the repository it was fetched from."""
    folder = folder.resolve()
    match = _SNAPSHOT.fullmatch(folder.parent.parent.name) if folder.parent.name == "snapshots" else None
    return match["name"] if match else folder.name


def _cached(wanted: Repository) -> Path | None:
    """Its folder in the cache, if all of it is there. Raises ``DownloadError`` for a name the hub does not allow."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, IncompleteSnapshotError, LocalEntryNotFoundError

    try:
        found = snapshot_download(
            wanted.name, revision=wanted.revision, allow_patterns=[*WANTED], local_files_only=True
        )
    except (LocalEntryNotFoundError, IncompleteSnapshotError):
        return None
    except HFValidationError as error:
        raise DownloadError(
            f"there is no folder {wanted.name!r} here, and the hub has no such names: {error}"
        ) from error
    return Path(found)


def _fetch(wanted: Repository) -> Path:
    # Nobody who has the model in a folder waits for this import.
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        info = HfApi().model_info(wanted.name, revision=wanted.revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        needed = sum(size for name, size in sizes.items() if any(fnmatch(name, wish) for wish in WANTED))
        _check_space(wanted, needed, Path(HF_HUB_CACHE))
        print(f"fetching {wanted.name} at commit {info.sha}: {needed / 1e9:.2f} GB", flush=True)
        # By its commit, and by its branch or tag: the second call finds the files and writes down what the name means.
        snapshot_download(wanted.name, revision=info.sha, allow_patterns=[*WANTED])
        return Path(snapshot_download(wanted.name, revision=wanted.revision, allow_patterns=[*WANTED]))
    except GatedRepoError as error:
        raise DownloadError(
            f"{wanted.name} is only given to those who have accepted its licence: do so at "
            f"https://huggingface.co/{wanted.name}, then log in with `hf auth login` or set HF_TOKEN"
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadError(f"{wanted.name} has no revision {wanted.revision!r}") from error
    except RepositoryNotFoundError as error:
        raise DownloadError(f"there is no folder {wanted.name!r}, and no such model on the hub") from error
    except DownloadError:
        raise
    except Exception as error:  # those of the connection come from whichever HTTP library the hub's own library uses
        raise DownloadError(
            f"there is no folder {wanted.name!r} here, and {wanted} could not be fetched from the hub: "
            f"{_first_line(error)}. What has arrived is kept: try again for the rest"
        ) from error


def _check_space(wanted: Repository, needed: int, cache: Path) -> None:
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DownloadError(
            f"{wanted} needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free below {cache}: make room, or set "
            "HF_HOME to a folder on another disk"
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
