#!/bin/sh
# Rebuilds echarts.min.js and inter-latin.woff2 from the versions in package.json. Needs node and npm; works in a folder of its own.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/entry.js" "$work/"
cd "$work"
npm install --no-audit --no-fund --ignore-scripts
node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=echarts --target=es2018 --charset=ascii \
	--legal-comments=none --define:process.env.NODE_ENV='"production"' --outfile="$here/echarts.min.js"
cp node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2 "$here/inter-latin.woff2"
if grep -qi '</script' "$here/echarts.min.js"; then echo "echarts.min.js holds </script" >&2; exit 1; fi
