"""Everything that a page shows of one row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from csot._core.errors import clip
from csot.review.domain.ledger import CODES
from csot.review.domain.session import Session
from csot.runs import STATUSES
from csot.runs.reasons import quoted, share, short_reason

LIKELY = 5
CHOICES = 10
"""Classes that an audit shows at once."""
KEYS = "1234567890"
TEXT_LIMIT = 20_000
CARD_TEXT = 280
ID_LIMIT = 300
DONE = {
    "accept": "accepted",
    "keep": "kept",
    "choose": "changed",
    "unsure": "unsure",
    "discard": "discarded",
}
WORDS = {code: DONE[action] for action, code in CODES.items()}


@dataclass(frozen=True)
class Likely:
    """A class and how probable it is."""

    number: int
    name: str
    probability: float


@dataclass(frozen=True)
class Bar:
    """One coordinate of bare features, beside the means of two classes; in -1 ... 1."""

    value: float
    given: float | None
    suggested: float | None


@dataclass(frozen=True)
class Card:
    """A row in a grid or among neighbours."""

    row: int
    id: str
    file: str
    """The last part of an id that is a path."""
    given: str | None
    suggested: str | None
    differs: bool
    score: float | None
    confidence: float
    has_image: bool
    text: str
    decision: str
    label: str | None
    """What was decided; None where nothing was."""
    similarity: float | None = None


@dataclass(frozen=True)
class Item:
    """A row by itself."""

    card: Card
    status: str
    note: str
    reason: str
    likely: list[Likely]
    text: str
    cells: list[tuple[str, str]]
    bars: list[Bar]
    neighbours: list[Card]
    others: list[tuple[str, str]] = field(default_factory=list)
    """What other reviewers decided; only after one's own decision, so that it stays one's own."""


@dataclass(frozen=True)
class Choice:
    """A class and the key that chooses it, if any."""

    number: int
    name: str
    key: str


@dataclass(frozen=True)
class BlindItem:
    """A row in an audit, which reveals neither the given nor the suggested label."""

    row: int
    id: str
    has_image: bool
    text: str
    cells: list[tuple[str, str]]
    bars: list[Bar]
    choices: list[Choice]
    is_decided: bool
    label: str | None
    """One's own; None if undecided or unsure."""


def make_card(session: Session, row: int, similarity: float | None = None) -> Card:
    c, samples, person = session.catalogue, session.samples, session.person
    score = float(c.score[row])
    text = samples.text(row)
    if not text and not samples.image(row):
        text = "\n".join(f"{name}: {cell}" for name, cell in samples.cells(row)[:6])
    return Card(
        row=row,
        id=clip(whole(c.ids[row]), ID_LIMIT),
        file=clip(whole(c.ids[row]).rpartition("/")[2], ID_LIMIT),
        given=_name(session, int(c.given[row])),
        suggested=_name(session, int(c.suggested[row])),
        differs=bool(c.given[row] != c.suggested[row]),
        score=None if np.isnan(score) else score,
        confidence=float(c.confidence[row]),
        has_image=bool(samples.image(row)),
        text=clip(text, CARD_TEXT),
        decision=WORDS.get(int(person.action[row]), ""),
        label=_name(session, int(person.label[row])),
        similarity=similarity,
    )


def make_item(session: Session, row: int) -> Item:
    c, samples = session.catalogue, session.samples
    card = make_card(session, row)
    neighbours = [make_card(session, near.row, near.similarity) for near in samples.neighbours(row)]
    likely = _likely(session, row)
    cells = [] if card.has_image or samples.text(row) else samples.cells(row)
    bare = not (card.has_image or samples.text(row) or cells)
    others = []
    if card.decision:
        for name, person in sorted(session.ledger.people.items()):
            if name != session.reviewer and person.action[row]:
                label = c.name(int(person.label[row]))
                others.append((name, label or WORDS[int(person.action[row])]))
    return Item(
        card=card,
        status=STATUSES[int(c.status[row])],
        note=c.notes[row],
        reason=_reason(session, card, neighbours),
        likely=likely,
        text=clip(samples.text(row), TEXT_LIMIT),
        cells=[(clip(name, 80), clip(cell, 400)) for name, cell in cells],
        bars=_bars(session, row) if bare else [],
        neighbours=neighbours,
        others=others,
    )


def make_blind_item(session: Session, row: int) -> BlindItem:
    """The sample and the classes to choose from, in an order that says nothing."""
    c, samples, person = session.catalogue, session.samples, session.person
    has_image, text = bool(samples.image(row)), samples.text(row)
    cells = [] if has_image or text else samples.cells(row)
    own = None if has_image or text or cells else samples.axes(row)
    scale = 1.0 if own is None else max(float(np.abs(own).max()), 1e-12)
    seen = bool(person.seen[row])
    return BlindItem(
        row=row,
        # The folders of a path are often the given label.
        id=clip(whole(c.ids[row]).rpartition("/")[2], ID_LIMIT),
        has_image=has_image,
        text=clip(text, TEXT_LIMIT),
        cells=[(clip(name, 80), clip(cell, 400)) for name, cell in cells],
        bars=[] if own is None else [Bar(float(v) / scale, None, None) for v in own],
        choices=_choices(session, row),
        is_decided=seen,
        label=_name(session, int(person.label[row])) if seen else None,
    )


def whole(text: str) -> str:
    """File names that are not Unicode hold lone surrogates, which no page can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _name(session: Session, label: int) -> str | None:
    name = session.catalogue.name(label)
    return None if name is None else whole(name)


def _likely(session: Session, row: int) -> list[Likely]:
    """The likeliest classes, the given one always among them."""
    c = session.catalogue
    if c.probabilities is None:
        return []
    own = np.asarray(c.probabilities[row], dtype=np.float64)
    best = np.argsort(-own, kind="stable")[:LIKELY].tolist()
    for label in (int(c.suggested[row]), int(c.given[row])):
        if 0 <= label < len(own) and label not in best:
            best[-1 if label == c.given[row] else -2] = label
    best.sort(key=lambda k: -own[k])
    return [Likely(k, whole(c.names[k]), float(own[k])) for k in best]


def _choices(session: Session, row: int) -> list[Choice]:
    """Keys follow the order, but a class called 4 has the key 4."""
    names = session.catalogue.names
    numbers = _offered(session, row)
    digits = all(len(name) == 1 and name in KEYS for name in names)
    keys = [names[k] for k in numbers] if digits else KEYS[: len(numbers)]
    return [Choice(k, whole(names[k]), key) for k, key in zip(numbers, keys, strict=True)]


def _offered(session: Session, row: int) -> list[int]:
    """All classes if they are few, else the given, the suggested and some others; by number."""
    c = session.catalogue
    if len(c.names) <= CHOICES:
        return list(range(len(c.names)))
    likely = [class_.number for class_ in _likely(session, row)]
    wanted = {k for k in (*likely, int(c.given[row]), int(c.suggested[row])) if k >= 0}
    others = np.random.default_rng(row).permutation(len(c.names)).tolist()
    for other in others:
        if len(wanted) >= LIKELY:
            break
        wanted.add(other)
    return sorted(wanted)


def _reason(session: Session, card: Card, neighbours: list[Card]) -> str:
    """Why the row is here: what the run says, then what its neighbours say."""
    c, row = session.catalogue, card.row
    parts = [whole(c.reasons[row]).replace(" %", "\u00a0%") or _older_reason(card, c.notes[row])]
    if neighbours:
        count = len(neighbours)
        same = sum(near.given == card.suggested for near in neighbours)
        verb = "is" if same == 1 else "are"
        words = f"{same} of its {count} nearest neighbours {verb} labelled {quoted(card.suggested)}"
        if card.differs and card.given is not None:
            as_given = sum(near.given == card.given for near in neighbours)
            words += f", {as_given} {quoted(card.given)}"
        parts.append(words + ".")
    if card.differs and c.standing[row] == c.given[row]:
        parts.append("The run is not sure, and changes nothing here by itself.")
    return " ".join(parts)


def _older_reason(card: Card, note: str) -> str:
    """Reason for a row of a run whose findings have none."""
    score = 1.0 if card.score is None else card.score
    words = short_reason(card.given, score, card.suggested, card.confidence)
    return f"{words} {note[:1].upper()}{note[1:]}." if note else words


def percent(share: float) -> str:
    """Format a share of a count: 100 % is all of them."""
    if 0.995 <= share < 1:
        return f"{min(share * 100, 99.9):.1f}\u00a0%"
    return "under 1\u00a0%" if 0 < share < 0.005 else f"{share * 100:.0f}\u00a0%"


def points(margin: float) -> str:
    """Format a difference of shares."""
    value = 100 * margin
    return f"±{value:.1f}" if value < 1.95 else f"±{value:.0f}"


def chance(probability: float) -> str:
    """Format a probability as in the reason that is shown next to it."""
    return share(probability).replace(" %", "\u00a0%")


def _bars(session: Session, row: int) -> list[Bar]:
    """Bare features: the row's first principal coordinates, against those of its two classes."""
    c, samples = session.catalogue, session.samples
    own = samples.axes(row)
    if own is None:
        return []
    given = samples.mean_axes(int(c.given[row]))
    suggested = samples.mean_axes(int(c.suggested[row]))
    present = [values for values in (own, given, suggested) if values is not None]
    scale = max(float(np.abs(np.concatenate(present)).max()), 1e-12)
    return [
        Bar(
            float(own[k]) / scale,
            None if given is None else float(given[k]) / scale,
            None if suggested is None else float(suggested[k]) / scale,
        )
        for k in range(len(own))
    ]
