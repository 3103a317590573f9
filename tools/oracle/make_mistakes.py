"""Makes the dumps of known mistakes: what golden cases would compute if the model's implementation had one.

    python tools/oracle/make_mistakes.py --golden fixtures/golden --out fixtures/golden-mistakes

Needs exactly the versions in requirements.txt. The dumps are coarse, the embedding and each layer's output, as a hook
on layers alone makes them: what is wrong inside of a layer must be found from its ends. The folder has

    CASE/MISTAKE.safetensors   one dump for each mistake that the case's family can have
    index.json                 each dump's file, case and mistake, what is wrong, and what it did to the logits
    provenance.json            command, versions, machine, and the SHA-256 of each file
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from families import family_of
from model import prepare_library
from mutate import mutate
from provenance import SCHEMA, hashes, require_versions, software, write_json

CASES = ("m2-gqa3-f32", "m3-gqa4-f32")
"""The plain case of each family."""

KEPT = ("model.embed_tokens", "model.layers.[0-9]")
"""The residual stream before the first layer and after each."""


def main() -> None:
    """Makes them all."""
    parser = argparse.ArgumentParser(description="Makes the dumps of known mistakes.")
    parser.add_argument("--golden", type=Path, required=True, help="the folder of the golden cases")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make, or to replace")
    arguments = parser.parse_args()
    require_versions()
    prepare_library()
    with TemporaryDirectory(dir=arguments.out.parent, prefix=f".{arguments.out.name}.") as temporary:
        folder = Path(temporary) / "new"
        folder.mkdir()
        make(arguments.golden, folder)
        if arguments.out.exists():
            arguments.out.rename(Path(temporary) / "old")
        folder.rename(arguments.out)


def make(golden: Path, folder: Path) -> None:
    """Writes all dumps of the cases in `golden` into `folder`, which is empty."""
    dumps = []
    for case in CASES:
        (folder / case).mkdir()
        for name, mistake in family_of(case).mistakes.items():
            file = f"{case}/{name}.safetensors"
            changed = mutate(golden / case, name, folder / file, KEPT)
            print(f"{name} in {case}: {changed}")
            dumps.append(
                {
                    "file": file,
                    "case": case,
                    "mistake": name,
                    "description": mistake.description,
                    "largest_change_of_logits": changed.largest,
                    "changed_best_tokens": changed.best_tokens,
                }
            )
    write_json(folder / "index.json", {"schema": SCHEMA, "dumps": dumps})
    command = "python tools/oracle/make_mistakes.py --golden fixtures/golden --out fixtures/golden-mistakes"
    write_json(
        folder / "provenance.json", {"schema": SCHEMA, "command": command, **software(), "sha256": hashes(folder)}
    )


if __name__ == "__main__":
    main()
