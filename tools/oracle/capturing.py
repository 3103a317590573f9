"""`tools/capture/capture.py`, which stands alone in another folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "capture"))
from capture import Capture

__all__ = ["Capture"]
