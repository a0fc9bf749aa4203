"""Every data source by name: `data: {source: NAME, ...}` in a spec, or `module:object` for one of the user's own."""

from __future__ import annotations

from trainables.data import derived, images, packaged, table, texts, uci
from trainables.data.own import OwnSource
from trainables.data.source import AnySource, Published, PublishedSource
from trainables.plugins import ByName

_KIND = "data source"
_PACKAGED: tuple[type[Published], ...] = (
    packaged.Digits,
    packaged.Uniform,
    packaged.Sentences,
    images.Mnist,
    uci.Adult,
    uci.Abalone,
    uci.GermanCredit,
    images.Cifar10,
    images.Idc,
    texts.Imdb,
    texts.MovieLens1M,
    texts.MovieLens100K,
    texts.Location,
    texts.Purchase100,
    texts.Texas100,
)
_PUBLISHED: ByName[AnySource] = ByName(_KIND, *map(PublishedSource, _PACKAGED), table.TABLE)
_DERIVED = (derived.Pooled(_PUBLISHED), derived.Frozen(_PUBLISHED), derived.Projected(_PUBLISHED))


SOURCES: ByName[AnySource] = ByName(_KIND, *_PUBLISHED.values(), *_DERIVED, imported=OwnSource)
