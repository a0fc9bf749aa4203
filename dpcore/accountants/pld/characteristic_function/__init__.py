"""Delta as a contour integral of the composed loss's characteristic function, summed over frequencies."""
