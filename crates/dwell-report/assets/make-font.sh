#!/bin/sh
# Makes the subset of Inter that figures are set in. Needs npm, and fonttools and brotli from PyPI.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
npm pack --silent --pack-destination "$work" @expo-google-fonts/inter@0.4.2
tar -xzf "$work"/*.tgz -C "$work"
# Latin, quotation marks, dashes, superscripts, subscripts, arrows and signs of numbers. Without kerning, so that text is as
# wide as its glyphs in every program.
pyftsubset "$work/package/400Regular/Inter_400Regular.ttf" --output-file=inter-figures.ttf \
    --unicodes=20-7E,A0-FF,394,3BC,2013-2014,2018-2019,201C-201D,2020,2022,2026,2070,2074-207B,2080-2089,2190-2193,2212,221E,2248,2264-2265 \
    --layout-features= --no-hinting --notdef-outline --name-IDs=0,1,2,3,4,5,6,13,14 \
    --drop-tables+=GSUB,GPOS,GDEF,STAT,meta
pyftsubset inter-figures.ttf --output-file=inter-figures.woff2 --flavor=woff2 --unicodes='*' --layout-features= \
    --no-hinting --notdef-outline --name-IDs='*'
