"""Words that a screen or a page cannot avoid, each in a few sentences for somebody who never met them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from sweeps.util.text import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A word and what it means here.

    meaning  a few sentences
    see      words that belong to it, each explained too
    """

    word: str
    meaning: str
    see: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {"word": self.word, "meaning": self.meaning, "see": list(self.see)}

    def __str__(self) -> str:
        see = f"\nSee also: {', '.join(self.see)}." if self.see else ""
        return f"{self.word}: {self.meaning}{see}"


def explain(word: str) -> Explained:
    """What a word means that is printed here: `epsilon`, `claim`, `add-remove`, `status`, ... Case does not matter.

    Raises InvalidValue for a word that is not explained, with the closest that is.
    """
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in GLOSSARY:
        raise InvalidValue("WORD", word, "a word that is explained here", did_you_mean(plain, GLOSSARY))
    return GLOSSARY[plain]


def _glossary(**words: tuple[str, str]) -> Mapping[str, Explained]:
    found = {}
    for name, (meaning, see) in words.items():
        word = name.replace("_", "-")
        found[word] = Explained(word=word, meaning=meaning, see=tuple(see.split()))
    return found


GLOSSARY: Mapping[str, Explained] = _glossary(
    sigma=("The noise multiplier, as papers write it.", "noise-multiplier"),
    pld=(
        "The accountant by privacy loss distributions: it composes exactly what each step may reveal, and says epsilon "
        "to within certified bounds on both sides. Others, by Renyi divergences (rdp) or Gaussian DP (gdp), are larger "
        "or asymptotic.",
        "accountant epsilon",
    ),
    standard_error=(
        "How far a score would move if other validation records had been drawn, and where it was released privately if "
        "other noise had been. It stands behind the score: 0.933 ± 0.013. Two scores of equal trials differ by more "
        "than two such errors of their difference one time in twenty.",
        "shrunk",
    ),
    shrunk=(
        "The best of many noisy scores is partly luck, and overstates what its trial is worth. So fronts and `best` "
        "compare scores that were moved towards the mean of the trials of the same system and budget: the more, the "
        "larger their standard error beside the spread of the trials (empirical Bayes, Efron & Morris 1975). Scores "
        "are printed as they were reported; data frames, CSV and JSON have both.",
        "standard-error",
    ),
    epsilon=(
        "How much one person's data can change what others learn from a result: any outcome is at most exp(epsilon) "
        "times as likely with a person in the data as without, but for the small chance delta. 0 reveals nothing of "
        "anybody; 1 lets a guess of even odds rise to at most 73%; 10 to 99.995%. Smaller is more private. It means "
        "something only together with its delta, adjacency, unit and status.",
        "delta adjacency unit status claim",
    ),
    delta=(
        "The small chance that is left out of what epsilon promises. It has to be far below one in the number of "
        "people in the data: at 1 / n, publishing one person's record whole at random would be allowed.",
        "epsilon",
    ),
    adjacency=(
        "Which two data sets must look alike in the result. add-remove: one has a person more than the other. "
        "replace-one: one person's data is exchanged for another's. The same training has a larger epsilon under "
        "replace-one, often about twice as large, so epsilons of different adjacency are never compared.",
        "add-remove replace-one unit",
    ),
    add_remove=("Two data sets are neighbours if one has a record (or person) more.", "adjacency replace-one"),
    replace_one=(
        "Two data sets are neighbours if they are of one size, and one record (or person) is exchanged for another.",
        "adjacency add-remove",
    ),
    unit=(
        "Whose data counts as one: a record (a row), or a person with all of their rows. A claim per record says next "
        "to nothing about somebody with many rows.",
        "adjacency claim",
    ),
    notion=(
        "The definition of privacy that an epsilon belongs to. differential-privacy holds for every data set and every "
        "person. The others promise less, and their epsilons never share an axis with it.",
        "differential-privacy bayesian-dp membership-privacy ex-post-privacy",
    ),
    differential_privacy=(
        "The result is nearly as likely with any one person in the data as without: for every data set, every person, "
        "and whatever else somebody knows.",
        "epsilon delta notion",
    ),
    bayesian_dp=(
        "An average over people drawn like the data. Somebody unlike the others may be protected far less: it is no "
        "epsilon of differential privacy.",
        "notion average-case",
    ),
    membership_privacy=(
        "Only the guess whether somebody was in the data is bounded, for a guesser who is uncertain in the way that "
        "was assumed; nothing else about them.",
        "notion membership-only",
    ),
    ex_post_privacy=(
        "An epsilon that is known when a trial has ended, and depends on how it ended. It was not promised before.",
        "notion claim",
    ),
    claim=(
        "What one trial promises for its own training: an epsilon with all that belongs to it. It leaves out that you "
        "looked at many trials and kept the best: that is the total's part.",
        "total epsilon status assumption",
    ),
    total=(
        "What all trials of a sweep promise together, the choice of the best included. This is the number to quote "
        "for a model that was chosen by its results. It is a guarantee where every budget was fixed beforehand, or "
        "where the sweep has one budget that a filter keeps; where results chose what ran next without one, it is "
        "none, and the screen says so.",
        "claim ledger sampler filter no-claim",
    ),
    final_run=(
        "One training with hyperparameters that an earlier sweep found on other records (`search.chosen_from`): with "
        "`privacy.scope: public` on records that are declared public, so that the search costs these records nothing; "
        "with `holdout` on another part of the same records, so that the whole costs the larger of both.",
        "total claim",
    ),
    filter=(
        "What keeps the one budget of a sweep (`privacy.scope: sweep`): before each launch it adds up all that was "
        "ever launched, lost and running launches included, and refuses the one that would exceed the budget; the "
        "sweep then ends. So the budget is the total, whatever sampler, early stopping or people chose.",
        "total budget spread ledger",
    ),
    spread=(
        "How the one budget of a sweep is divided among its trials, by their numbers alone: equal; front-loaded, as 1, "
        "1/2, 1/3; or halving, for early stopping, where rungs that few trials reach are paid for few times.",
        "filter budget",
    ),
    ledger=(
        "The book of every step of training that drew noise, written before the step runs. What was lost in a crash is "
        "charged too, since it may have been seen; nothing is ever taken off again.",
        "total step",
    ),
    status=(
        "How firmly a claim stands: proved, proved-under-assumptions, asymptotic, average-case, membership-only, "
        "asserted, not-covered, refuted or no-claim. Only the first two bound what they name. Numbers in brackets "
        "count the assumptions, which stand in full below.",
        "proved proved-under-assumptions refuted assumption",
    ),
    proved=("There is a proof, and what it rests on is listed.", "status assumption"),
    proved_under_assumptions=(
        "There is a proof, but it needs something that is not known of your data or machine. It is listed: read it.",
        "status assumption",
    ),
    asymptotic=(
        "True in the limit of many steps. At any number of steps the real epsilon may be larger: it is no bound.",
        "status",
    ),
    average_case=("True on average over people like those in the data, for no particular one.", "status bayesian-dp"),
    membership_only=("Bounds only the guess who was in the data.", "status membership-privacy"),
    asserted=(
        "The word of a system from another package: nobody here counted it, and its module is named.",
        "status proved-under-assumptions",
    ),
    not_covered=("More left than was counted, so that the epsilon bounds nothing of it.", "status claim"),
    refuted=(
        "Shown to be false: by an argument, or by an audit of a trial. Publish no trial of that system.",
        "status audit",
    ),
    no_claim=("A count of what ran that promises nothing, mostly since results chose what ran next.", "status total"),
    quote=(
        "Whether a printed number may be published. yes: as it stands. as one trial's: say that it leaves out the "
        "search. under its assumptions, as a demonstration, as a score on public records: with the "
        "sentence beside it. no guarantee, of the machine, of raw records, undeclared: no claim stands behind it. "
        "refuted: shown to be false, and so is all else that trials of that system reported.",
        "claim total status refuted validation",
    ),
    assumption=(
        "What must be true for a claim to hold. Some are always there: that computers calculate with rounded numbers, "
        "for example, is covered by no proof here.",
        "status claim",
    ),
    accountant=(
        "The calculation that finds epsilon from the noise and the number of steps. `pld` is the tightest here; `rdp` "
        "and the others give larger numbers for the same noise, or belong to other notions.",
        "epsilon noise-multiplier",
    ),
    budget=(
        "The epsilon that a trial may spend at most (`target_epsilon`); of a sweep with one budget, that of the "
        "largest part that a trial gets. The noise is calculated to fit it before "
        "anything runs, and the claim ends a little below it.",
        "epsilon noise-multiplier claim",
    ),
    noise_multiplier=(
        "How much random noise is added in a step, relative to the most that one person can change it. More noise: "
        "less epsilon, and mostly less accuracy.",
        "clip-norm budget accountant",
    ),
    clip_norm=(
        "The most that one person can change a step: longer gradients are shortened to this length. Too small and "
        "training learns little; too large and the noise, which grows with it, drowns it.",
        "noise-multiplier",
    ),
    sample_rate=(
        "The chance with which each person takes part in a step. Whoever is left out is not exposed, so a smaller rate "
        "costs less epsilon a step.",
        "epsilon step",
    ),
    step=("One update of the model with noise of its own: what the ledger counts.", "ledger noise-multiplier"),
    front=(
        "The trials that no other beats in everything: among them, more of one objective costs some of another. You "
        "choose one of them; which, no computer can say.",
        "hypervolume objective",
    ),
    hypervolume=(
        "One number for a whole front: the area (or volume) that it dominates up to fixed ends of the axes. Larger is "
        "better. It compares two fronts only with the same ends.",
        "front",
    ),
    objective=("A number that the search makes large or small: accuracy, loss, epsilon, ...", "front"),
    sampler=(
        "What proposes the next trial. `random` and `grid` look at no result, so the total is a guarantee. Those that "
        "learn from results find better trials sooner, and leave the total without a guarantee.",
        "total",
    ),
    trial=("One training with one choice of hyperparameters, within its own budget.", "sweep claim"),
    sweep=("A search: many trials on the same data, with one ledger and one total.", "trial total"),
    plan=(
        "All that a trial may draw, decided from public facts before it runs: steps, noise, rate. Its claim is that of "
        "the whole plan, wherever it was stopped.",
        "claim step",
    ),
    infeasible=("A proposal that breaks its budget, a limit or a constraint: never launched, and free.", "budget plan"),
    validation=(
        "Records on which trials are judged. If they are public, scores leave as they are and no claim covers these "
        "records. If they are private, each score has noise, and is paid for.",
        "claim",
    ),
    selection=(
        "A sealed search (release: best, or first): a secret number of trials runs, one leaves, at an announced time, "
        "and its epsilon covers the whole search. Nothing of the others may ever be seen, nor how many there were: "
        "that secret is why it costs about two or three trials, and not all of them.",
        "claim total budget",
    ),
    population=(
        "Whose records they are, by a public name that specs declare (data.population). All sweeps, audits and test "
        "readings over it share one budget, made once by `sweeps budget`: each launch reserves its cost there first, "
        "and one that does not fit does not happen. Rows add up; deleting a sweep gives nothing back. A ledger is of "
        "one store: what another store, or another tool, releases of the same people is in none.",
        "ledger budget",
    ),
    audit=(
        "An attempt to prove a claim false by attacking the training with planted records. `refuted` is an answer; "
        "`consistent` only says that this attack found nothing.",
        "refuted claim",
    ),
    certificate=(
        "One signed document that says what a sweep claims and everything that this rests on, with a page for people. "
        "`sweeps certify --verify` recomputes the claim from it alone and names what is the signer's word; it fails on "
        "any changed byte. Refuted and asymptotic claims get none, average-case ones a statement that says so.",
        "claim total status ledger",
    ),
    canary=("A record that an audit plants to see whether the trained model betrays it.", "audit"),
)  # fmt: skip
"""{word: what it means}."""
