"""The experiments by name, each with the module that measures and the one that draws: a new one is a new line here."""

from __future__ import annotations

from .harness.catalogue import Catalogue, Entry, Together

MODES = "experiments.shared.mode_figure"
CATALOGUE = Catalogue(
    {
        "trace_table": Entry("experiments.trace_table.experiment", "experiments.trace_table.figure", id="E00"),
        "cheap_gradient": Entry("experiments.cheap_gradient.experiment", "experiments.cheap_gradient.figure", id="E04"),
        "many_to_one": Entry("experiments.mode_cost.many_to_one", MODES, id="E01"),
        "one_to_many": Entry("experiments.mode_cost.one_to_many", MODES, id="E02"),
        "crossover": Entry("experiments.crossover.experiment", "experiments.crossover.figure", id="E03"),
        "accuracy_vs_step": Entry(
            "experiments.accuracy_vs_step.experiment",
            "experiments.accuracy_vs_step.figure",
            takes_function=True,
            id="E06",
        ),
        "helmholtz": Entry("experiments.helmholtz", MODES, id="E12"),
        "hvp": Entry("experiments.hvp.experiment", "experiments.hvp.figure", id="E05"),
        "nesting": Entry("experiments.nesting.experiment", "experiments.nesting.figure", id="E13"),
        "adbench": Entry("experiments.adbench.experiment", "experiments.adbench.figure", id="E11"),
    },
    (Together("mode_cost", ("many_to_one", "one_to_many"), "experiments.mode_cost.figure"),),
)
