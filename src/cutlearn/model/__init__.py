"""What a person uses: models that are fitted, kept in files and asked for masks."""
