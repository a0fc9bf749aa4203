"""Every model by name: `model: NAME` in a spec, or the user's own `package.module:function`.

Building imports torch; naming and checking a model do not.
"""

from trainables.models.registry import MODELS, ModelEntry, build, check, outputs, shaping

__all__ = ["MODELS", "ModelEntry", "build", "check", "outputs", "shaping"]
