#!/bin/sh
# Fetches the default data set into data/sentiment/: 10,605 movie-review snippets, each with the mean
# sentiment rating of at least 20 people (-4 to 4), and their licence.
#
# They come from the source distribution of the Python package vaderSentiment (MIT, C. J. Hutto):
# C. J. Hutto, E. Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social
# Media Text", ICWSM 2014. The snippets are sentences of reviews from Rotten Tomatoes, collected by
# B. Pang and L. Lee. Nothing of it is part of this project.
#
# A second run finds the file in place and does nothing.
set -eu

version=3.3.2
archive_sha256=5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9
snippets=movieReviewSnippets_GroundTruth.txt
snippets_sha256=c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350

cd "$(dirname "$0")/.."
target=data/sentiment

fail() {
  echo "fetch_sentiment: $*" >&2
  exit 1
}

matches() { # file sha256
  [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$2" ]
}

if matches "$target/$snippets" "$snippets_sha256" && [ -s "$target/LICENSE.txt" ]; then
  echo "fetch_sentiment: $target/$snippets is in place"
  exit 0
fi

python3 -m pip --version > /dev/null 2>&1 || fail "python3 with pip is missing (Debian: apt-get install python3-pip)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The hash is checked by pip before it looks into the archive.
echo "vaderSentiment==$version --hash=sha256:$archive_sha256" > "$work/requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps \
  --no-binary vaderSentiment --require-hashes --requirement "$work/requirements.txt" \
  --dest "$work" > "$work/log" 2>&1 || {
  cat "$work/log" >&2
  fail "pip could not fetch vaderSentiment $version, its message is above; the package index must be reachable"
}
archive="$work/vaderSentiment-$version.tar.gz"
matches "$archive" "$archive_sha256" || fail "the archive's SHA-256 is not $archive_sha256"

inner="vaderSentiment-$version/additional_resources/hutto_ICWSM_2014.tar.gz"
tar -xzf "$archive" -C "$work" "$inner" "vaderSentiment-$version/LICENSE.txt" || fail "the archive lacks $inner"
tar -xzf "$work/$inner" -C "$work" "hutto_ICWSM_2014/$snippets" || fail "$inner lacks $snippets"
matches "$work/hutto_ICWSM_2014/$snippets" "$snippets_sha256" || fail "the SHA-256 of $snippets is not $snippets_sha256"

# The snippets last and by rename: where they lie, everything is complete.
mkdir -p "$target"
cp "$work/vaderSentiment-$version/LICENSE.txt" "$target/LICENSE.txt"
cp "$work/hutto_ICWSM_2014/$snippets" "$target/$snippets.part"
chmod 644 "$target/LICENSE.txt" "$target/$snippets.part"
mv "$target/$snippets.part" "$target/$snippets"
echo "fetch_sentiment: wrote $target/$snippets and $target/LICENSE.txt"
