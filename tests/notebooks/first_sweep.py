# %% [markdown]
# # A first sweep
#
# `noisy-mean` releases a mean with Gaussian noise: its error and its epsilon have closed forms, and a trial takes
# milliseconds. Open this file as a notebook (Jupytext, VS Code, PyCharm), or run it as a script.

# %%
import sweeps

spec = sweeps.load("toy", trials=12, seed=1)

# %% [markdown]
# What it would do and cost, before anything runs. No record is read.

# %%
print(sweeps.check(spec))

# %% [markdown]
# Run it. In a notebook it shows how far it is.

# %%
sweep = sweeps.run(spec, name="notebook")

# %% [markdown]
# What one trial claims, what all of them together do, and what was charged.

# %%
sweep

# %% [markdown]
# The trials that no other beats.

# %%
sweep.front()

# %%
sweep.trials().head()

# %%
sweep.front().figure()

# %% [markdown]
# One trial, whole; and a word that stands beside the numbers.

# %%
print(sweep.describe(sweep.best().number))

# %%
print(sweeps.explain("epsilon"))
