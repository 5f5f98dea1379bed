"""Pictures of the run's own rows, and no other file; the package's own scripts and styles."""

from __future__ import annotations

import io
import threading
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from csot._core.pictures import Containment, PictureError, decoded, has_pillow, read_file, stretched
from csot.review.domain.session import Session
from csot.review.web.pages import STATIC, Pages
from csot.review.web.routes_browse import check_row

MAX_BYTES = 64 * 2**20
"""Larger files are not read."""
SENT_AS_IS = 12 * 2**20
"""Larger pictures are sent smaller, if Pillow is there."""
DECODERS = threading.BoundedSemaphore(2)
"""How many pictures are decoded at once: a page of sixty must not fill the memory."""
SMALL, LARGE = 320, 1600
"""Longest sides in pixels: of a card, and of the one picture that fills the page."""
SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


@dataclass(frozen=True)
class Picture:
    content: bytes
    kind: str


def read_picture(allowed: Containment, name: str, small: bool) -> Picture:
    """What the browser gets: the file as it is, or made smaller."""
    path = allowed.find(name)
    content = read_file(path, MAX_BYTES)
    kind = kind_of_picture(content)
    as_is = kind is not None and len(content) <= (SENT_AS_IS if not small else 32 * 1024)
    as_is = as_is and not (is_deep(content) and has_pillow())
    if as_is and kind is not None:
        return Picture(content, kind)
    if has_pillow():
        return _resized(path, path.stat().st_mtime_ns, SMALL if small else LARGE)
    if kind is None:
        raise PictureError("browsers cannot show this file; pip install pillow to see it")
    return Picture(content, kind)


def kind_of_picture(content: bytes) -> str | None:
    """Media type by the first bytes: names can be wrong, and HTML is never sent as a picture."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in SIGNATURES if content.startswith(start)), None)


def is_deep(content: bytes) -> bool:
    """A grey PNG of 16 bits, which browsers show as nearly black if it uses few of them."""
    return (
        content.startswith(SIGNATURES[0][0])
        and content[24:25] == b"\x10"
        and (content[25:26] in (b"\0", b"\4"))
    )


@lru_cache(maxsize=512)
def _resized(path: Path, changed: int, edge: int) -> Picture:
    """A JPEG or PNG of at most `edge` pixels; `changed` only tells versions of a file apart."""
    from PIL import ImageOps

    try:
        with (
            DECODERS,
            # JPEG is decoded at a fraction of its size.
            decoded(read_file(path, MAX_BYTES), edge) as opened,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            image = ImageOps.exif_transpose(opened)
            if image.mode[0] in "IF":
                image = stretched(image)
            image.thumbnail((edge, edge))
            clear = image.mode in ("LA", "PA", "P", "RGBA")
            image = image.convert("RGBA" if clear else "RGB")
            buffer = io.BytesIO()
            image.save(buffer, "PNG" if clear else "JPEG", quality=85)
    except PictureError:
        raise
    except Exception:  # Pillow's decoders raise nearly anything on a broken file
        raise PictureError("the file is not a picture that can be read") from None
    return Picture(buffer.getvalue(), "image/png" if clear else "image/jpeg")


def add_file_routes(app: FastAPI, session: Session, pages: Pages) -> None:
    """Pictures of rows, by row number, and the package's own scripts and styles."""

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "There is no such file.")
        keep = {"Cache-Control": "private, max-age=86400"}
        return Response(pages.static[name], media_type=STATIC[name], headers=keep)

    @app.get("/image/{row}")
    def image(row: int, small: int = 0) -> Response:
        check_row(session, row)
        name = session.samples.image(row)
        try:
            found = read_picture(session.pictures, name, bool(small))
        except PictureError as error:
            raise HTTPException(404, str(error)) from error
        keep = {"Cache-Control": "private, max-age=3600"}
        return Response(found.content, media_type=found.kind, headers=keep)

    @app.get("/api/why")
    def why(row: int) -> dict[str, str]:
        """Why a picture does not show; browsers do not tell scripts."""
        check_row(session, row)
        try:
            read_picture(session.pictures, session.samples.image(row), False)
        except PictureError as error:
            return {"reason": str(error)}
        return {"reason": "the browser cannot show this file"}
