"""Which signatures are alike: distances, clusters, neighbours."""
