"""Every data source by name: `data: {source: NAME, ...}` in a spec, or `module:object` for one of the user's own."""

from __future__ import annotations

from trainables.data import derived, images, packaged, table, texts, uci
from trainables.data.own import OwnSource
from trainables.data.source import AnySource
from trainables.plugins import ByName

_KIND = "data source"
_PUBLISHED: ByName[AnySource] = ByName(
    _KIND,
    packaged.DIGITS,
    packaged.UNIFORM,
    packaged.SENTENCES,
    images.MNIST,
    uci.ADULT,
    uci.ABALONE,
    uci.GERMAN_CREDIT,
    images.CIFAR10,
    images.IDC,
    texts.IMDB,
    texts.MOVIELENS_1M,
    texts.MOVIELENS_100K,
    texts.LOCATION,
    texts.PURCHASE_100,
    texts.TEXAS_100,
    table.TABLE,  # the user's own
)
_DERIVED = (derived.Pooled(_PUBLISHED), derived.Frozen(_PUBLISHED), derived.Projected(_PUBLISHED))


SOURCES: ByName[AnySource] = ByName(_KIND, *_PUBLISHED.values(), *_DERIVED, imported=OwnSource)
