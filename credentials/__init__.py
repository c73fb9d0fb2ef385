"""Keys: their lifecycle, their doors, their artifacts. Its pure rooms import no framework, so this door stays empty."""
