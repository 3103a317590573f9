"""Serves a folder's files by ranges, with tags, as object storage does: `python3 ranges.py FOLDER PORT`.

Large objects come from the system's cache as fast as the kernel sends them; moto reads all of one for each range.
"""

import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1])


class Objects(BaseHTTPRequestHandler):
    """Answers to HEAD and GET."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def answer(self, has_body: bool) -> None:
        """Sends an object, or the range of it that is asked for."""
        path = FOLDER / self.path.partition("?")[0].lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), min(int(asked[2] or size), size - 1)) if asked else (0, size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("ETag", f'"{size}"')
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.flush()
        with path.open("rb") as file:
            while has_body and first <= last:
                first += os.sendfile(self.connection.fileno(), file.fileno(), first, last - first + 1)

    def do_HEAD(self) -> None:
        """The header alone."""
        self.answer(has_body=False)

    def do_GET(self) -> None:
        """With its bytes."""
        self.answer(has_body=True)


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Objects).serve_forever()
