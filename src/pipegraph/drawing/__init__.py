"""Draw graphs: what lies where (``scene``), and as SVG, PNG (``paint``) and Mermaid text (``mermaid``)."""
