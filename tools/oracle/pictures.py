"""Pictures drawn from seeds, and the cases that are made of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from PIL import Image


def scene(height: int, width: int, seed: int, channels: int = 3) -> numpy.ndarray:
    """Gradients, a disc and a bar with hard edges, and noise: levels [height, width, channels]."""
    draw = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    levels = numpy.empty((height, width, channels))
    for channel in range(channels):
        down, right = draw.uniform(-1, 1, 2)
        levels[..., channel] = 128 + 100 * (down * y / height + right * x / width)
    disc = (y - 0.4 * height) ** 2 + (x - 0.6 * width) ** 2 < (0.25 * min(height, width)) ** 2
    levels[disc] = draw.integers(0, 256, channels)
    levels[height // 2 : height // 2 + 2, : width // 2] = draw.integers(0, 256, channels)
    levels += draw.normal(0, 12, levels.shape)
    return levels.clip(0, 255).round().astype(numpy.uint8)


def frames(count: int, height: int, width: int, seed: int) -> list[numpy.ndarray]:
    """A bar that moves over a scene."""
    still = scene(height, width, seed)
    moving = [still.copy() for _ in range(count)]
    for i, frame in enumerate(moving):
        frame[:, i * width // count : i * width // count + 3] = (255, 20 * i, 0)
    return moving


@dataclass(frozen=True)
class Picture:
    """A case: what is in its folder, and what for."""

    name: str
    description: str
    save: Callable[[Path], object]
    """Writes its file, or its frames, into a folder."""
    files: dict[str, dict] = field(default_factory=dict)
    """Files of parameters, such as preprocessor_config.json."""


def _png(levels: numpy.ndarray, mode: str | None = None, **options: object) -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(levels, mode).save(folder / "image.png", **options)


def _jpeg(levels: numpy.ndarray, **options: object) -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(levels).save(folder / "image.jpg", **options)


def _palette(name: str, seed: int, **options: object) -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(scene(40, 46, seed)).quantize(23).save(folder / name, **options)


def _orientation(number: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


def _frames(folder: Path) -> None:
    (folder / "frames").mkdir()
    for i, levels in enumerate(frames(11, 36, 52, 21)):
        Image.fromarray(levels).save(folder / "frames" / f"frame{i + 1}.png")


def _gif(folder: Path) -> None:
    first, *others = [Image.fromarray(levels).quantize(64) for levels in frames(11, 40, 30, 22)]
    first.save(folder / "video.gif", save_all=True, append_images=others, duration=100, loop=0)


def _few_pixels(least: int, most: int) -> dict[str, dict]:
    return {"preprocessor_config.json": {"size": {"shortest_edge": least, "longest_edge": most}}}


_OTHER = {
    "size": [672, 672],
    "min_pixels": 2000,
    "max_pixels": 5000,
    "patch_size": 6,
    "temporal_patch_size": 3,
    "merge_size": 3,
    "rescale_factor": 1 / 256,
    "image_mean": [0.5, 0.25, 0.75],
    "image_std": [0.3, 0.6, 0.9],
}

PICTURES = (
    Picture("up", "less than the least area", _png(scene(10, 17, 1))),
    Picture("down", "more than the largest area", _png(scene(151, 97, 2)), _few_pixels(3136, 4704)),
    Picture("odd", "sides that are rounded to the nearest multiples", _png(scene(61, 83, 3))),
    Picture("tall", "33 times as high as wide", _png(scene(300, 9, 4))),
    Picture("same", "already of the size that it is given", _png(scene(56, 84, 5))),
    Picture("half", "a side halfway between multiples goes to the even one", _png(scene(70, 42, 6))),
    Picture("rgba", "alpha", _png(scene(40, 50, 7, channels=4))),
    Picture("grey", "one channel", _png(scene(30, 44, 8)[..., 0])),
    Picture("grey-alpha", "one channel and alpha", _png(scene(30, 44, 9)[..., :2], "LA")),
    Picture("one-bit", "black and white", _png(scene(30, 44, 10)[..., 0] > 120)),
    Picture("palette", "a palette", _palette("image.png", 11)),
    Picture(
        "palette-transparent",
        "a palette with a transparent colour and half transparent ones",
        _palette("image.png", 12, transparency=bytes([0, 255, 100, 200])),
    ),
    Picture("gif", "a GIF of one frame", _palette("image.gif", 13)),
    Picture("jpeg", "chroma halved both ways", _jpeg(scene(61, 83, 14), quality=90, subsampling="4:2:0")),
    Picture("jpeg-full", "chroma whole", _jpeg(scene(61, 83, 15), quality=95, subsampling="4:4:4")),
    Picture("jpeg-wide", "chroma halved along rows", _jpeg(scene(50, 70, 16), quality=85, subsampling="4:2:2")),
    Picture("jpeg-progressive", "progressive", _jpeg(scene(61, 83, 17), quality=80, progressive=True)),
    Picture("jpeg-grey", "one component", _jpeg(scene(61, 83, 18)[..., 0], quality=90)),
    Picture("jpeg-turned", "to be turned", _jpeg(scene(48, 90, 19), quality=95, exif=_orientation(6))),
    *(
        Picture(
            f"turned-{number}",
            f"EXIF's orientation {number}",
            _png(scene(28, 56, 20), exif=_orientation(number)),
            _few_pixels(784, 1568),
        )
        for number in range(2, 9)
    ),
    Picture(
        "other-image",
        "other parameters, and the size that is not used",
        _png(scene(61, 50, 23)),
        {"preprocessor_config.json": _OTHER},
    ),
    Picture(
        "raw-image",
        "neither resized nor normalised, in a nested file",
        _png(scene(56, 28, 24)),
        {"processor_config.json": {"image_processor": {"do_resize": False, "do_normalize": False}}},
    ),
    Picture("video", "eleven frames, in the natural order of their names", _frames),
    Picture(
        "video-gif",
        "an animation, with parameters in the images' file",
        _gif,
        {"preprocessor_config.json": {"size": [672, 672], "min_pixels": 1000, "max_pixels": 1568}},
    ),
    Picture(
        "other-video",
        "other parameters",
        _frames,
        {"video_preprocessor_config.json": _OTHER | {"vision_segment_max_frames": 3}},
    ),
)
"""All cases."""
