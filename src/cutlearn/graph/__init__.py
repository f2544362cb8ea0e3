"""Flow networks: the live handle over the C++ solvers, its answer, and the bare max-flow."""

from cutlearn.graph.cut import Cut
from cutlearn.graph.flow import MaxFlow, max_flow
from cutlearn.graph.solver import Solver

__all__ = ["Cut", "MaxFlow", "Solver", "max_flow"]
