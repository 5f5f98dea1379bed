"""Files: pictures of rows, by row number, and the package's own scripts and styles."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from csot.review.pages import STATIC, Pages
from csot.review.pictures import read_picture
from csot.review.routes_rows import check_row
from csot.review.session import Session
from csot.untrusted.pictures import PictureError


def add_file_routes(app: FastAPI, session: Session, pages: Pages) -> None:
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
