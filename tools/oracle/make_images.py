"""Makes the golden images: small pictures, and what the transformers library's processors make of them.

    python tools/oracle/make_images.py --out fixtures/golden-images

Needs exactly the versions in requirements-images.txt. The folder has

    CASE/image.*, CASE/video.gif, CASE/frames/   the picture, or the video
    CASE/*.json          parameters, as in a model's folder; for what they leave out, those of the library
    CASE/expected.npz    values [N, columns] f32, grids [G, 3] i64, and decoded [height, width, 3] u8 of an image
    sizes.json           [height, width, least, most, new height, new width] of the library's smart_resize
    provenance.json      command, versions, machine, what each case is for, and the SHA-256 of each file
"""

import pinned  # isort: skip
import random
from functools import partial
from pathlib import Path

import numpy
import torch
from filled import filled
from pictures import PICTURES, Picture
from provenance import SCHEMA, record, require_pins, write_json
from torchvision.io import ImageReadMode, decode_gif, decode_image, read_file
from transformers.models.minimax_m3_vl.image_processing_minimax_m3_vl import MiniMaxM3VLImageProcessor, smart_resize
from transformers.models.minimax_m3_vl.video_processing_minimax_m3_vl import MiniMaxM3VLVideoProcessor


def main() -> None:
    """Makes them all."""
    require = partial(require_pins, "requirements-images.txt")
    filled("Makes the golden images with the transformers library.", make, require=require)


def make(folder: Path) -> None:
    """Writes all cases into `folder`, which is empty."""
    for picture in PICTURES:
        _make_case(picture, folder / picture.name)
    write_json(folder / "sizes.json", {"schema": SCHEMA, "sizes": _sizes()})
    cases = {picture.name: picture.description for picture in PICTURES}
    record(folder, "make_images.py --out fixtures/golden-images", ("pillow", "torchvision"), cases=cases)


def _make_case(picture: Picture, folder: Path) -> None:
    folder.mkdir()
    for name, parameters in picture.files.items():
        write_json(folder / name, parameters)
    picture.save(folder)
    expected = _video(folder) if "video" in picture.name else _image(folder)
    numpy.savez_compressed(folder / "expected.npz", **{name: tensor.numpy() for name, tensor in expected.items()})


def _image(folder: Path) -> dict[str, torch.Tensor]:
    (path,) = folder.glob("image.*")
    made = _processor(MiniMaxM3VLImageProcessor, folder)(str(path), return_tensors="pt")
    decoded = decode_image(str(path), mode=ImageReadMode.RGB, apply_exif_orientation=True).permute(1, 2, 0)
    return {"values": made["pixel_values"].float(), "grids": made["image_grid_thw"], "decoded": decoded.contiguous()}


def _video(folder: Path) -> dict[str, torch.Tensor]:
    if (folder / "video.gif").exists():
        video = decode_gif(read_file(str(folder / "video.gif")))
    else:
        count = len(list((folder / "frames").iterdir()))
        video = [[[str(folder / "frames" / f"frame{i + 1}.png") for i in range(count)]]]
    made = _processor(MiniMaxM3VLVideoProcessor, folder)(video, return_tensors="pt")
    return {"values": made["pixel_values_videos"], "grids": made["video_grid_thw"]}


def _processor(kind: type, folder: Path) -> object:
    return kind.from_pretrained(folder) if list(folder.glob("*.json")) else kind()


def _sizes() -> list[list[int]]:
    """Sides drawn evenly in their logarithms, and the edges."""
    draw = random.Random(1)
    areas = ((3136, 451584), (3136, 602112), (784, 6272))
    edges = (1, 13, 14, 15, 27, 28, 42, 70, 98, 200, 671, 672, 673, 686, 4000, 5600)
    sides = [(a, b) for a in edges for b in edges if max(a, b) <= 200 * min(a, b)]
    while len(sides) < 400:
        height, width = (round(2 ** draw.uniform(0, 14)) for _ in range(2))
        if max(height, width) <= 200 * min(height, width):
            sides.append((height, width))
    answers = []
    for i, (height, width) in enumerate(sides):
        least, most = areas[i % len(areas)]
        answers.append([height, width, least, most, *smart_resize(height, width, 28, least, most)])
    return answers


if __name__ == "__main__":
    main()
