"""Recording on all ranks: clocks aligned, one timeline, who waited for whom, and what was hidden."""
