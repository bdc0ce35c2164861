"""From any source of rows to a verified store of shards, one per node, in bounded memory."""
