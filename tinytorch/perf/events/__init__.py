"""The one stream of events, recorded at the seam, and its read-outs: arithmetic, life of arrays, traces."""
