"""The experiments by name, each with the module that measures and the one that draws: a new one is a new line here."""

from __future__ import annotations

from .harness.catalogue import Catalogue, Entry, Together

MODES = "experiments.shared.mode_figure"
CATALOGUE = Catalogue(
    {
        "trace_table": Entry("experiments.trace_table.experiment", "experiments.trace_table.figure"),
        "many_to_one": Entry("experiments.mode_cost.many_to_one", MODES, takes_sizes=True),
        "one_to_many": Entry("experiments.mode_cost.one_to_many", MODES, takes_sizes=True),
        "crossover": Entry("experiments.crossover.experiment", "experiments.crossover.figure", takes_sizes=True),
        "cheap_gradient": Entry("experiments.cheap_gradient.experiment", "experiments.cheap_gradient.figure"),
        "accuracy_vs_step": Entry(
            "experiments.accuracy_vs_step.experiment", "experiments.accuracy_vs_step.figure", takes_function=True
        ),
        "expression_swell": Entry("experiments.expression_swell.experiment", "experiments.expression_swell.figure"),
        "helmholtz": Entry("experiments.helmholtz", MODES, takes_sizes=True),
        "hvp": Entry("experiments.hvp.experiment", "experiments.hvp.figure"),
        "nesting": Entry("experiments.nesting.experiment", "experiments.nesting.figure"),
        "adbench": Entry("experiments.adbench.experiment", "experiments.adbench.figure"),
        "linalg_conditioning": Entry(
            "experiments.linalg_conditioning.experiment", "experiments.linalg_conditioning.figure"
        ),
        "hourglass": Entry("experiments.hourglass.experiment", "experiments.hourglass.figure"),
        "linearise_transpose": Entry(
            "experiments.linearise_transpose.experiment", "experiments.linearise_transpose.figure"
        ),
    },
    (Together("mode_cost", ("many_to_one", "one_to_many"), "experiments.mode_cost.figure"),),
)
