"""The colours of all figures."""

# The colours of Okabe and Ito, which colour-blind readers can distinguish. Yellow is darker and
# black lighter than theirs, so that both are visible on light and on dark backgrounds.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#8a8a8a",
    "#a89600",
)
