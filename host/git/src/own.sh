# Whatever the interpreter was told: these scripts look at each result themselves.
set +Ceufvx
(set +o pipefail) 2>/dev/null && set +o pipefail
[ -z "${ZSH_VERSION:-}" ] || emulate sh
for name in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do
  [ "$name" = GIT_EXEC_PATH ] || unset "$name"
done
tab=$(printf '\t') one=$(printf '\001') cr=$(printf '\r') at=0 own=/dev/null top=/ excludes= crlf=false eol= head= named= below= is_full=
has_git() { command -v git >/dev/null 2>&1; }
# Names that end with a zero byte as lines, and back: a newline in a name is a byte of the value 1 in between.
lined() { tr '\n\000' '\001\n'; }
zeroed() { tr '\n\001' '\000\n'; }
# Makes `$file` the name in the line $1.
name() {
  file=$1
  case $file in *"$one"*) file=$(printf '%s.' "$file" | zeroed | tr '\000' '\n') file=${file%.} ;; esac
}
note() { printf '@mswea note %s\n' "$*" >>"$s/notes"; }
# The names in the file $2, for a note that begins with $1.
named() {
  [ ! -s "$2" ] || note "$1: $(LC_ALL=C awk 'NR <= 5 { gsub("\001", "\\n"); printf "%s`%s`", (NR > 1 ? ", " : ""), $0 } END { if (NR > 5) printf " and %d more", NR - 5 }' "$2")"
}
# git with a repository folder, settings and hooks of this script's own.
g() {
  HOME=$s XDG_CONFIG_HOME=$s GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none GIT_TERMINAL_PROMPT=0 LC_ALL=C \
    command git --git-dir="$own" --work-tree="$top" --no-pager -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.untrackedCache=false -c core.splitIndex=false -c core.safecrlf=false -c core.quotePath=true -c core.abbrev=7 -c core.attributesFile=/dev/null -c core.excludesFile="$excludes" -c core.autocrlf="$crlf" -c core.eol="$eol" -c advice.addEmbeddedRepo=false -c gc.auto=0 "$@"
}
# A value that the repository or the user has set. Only the value is read, and no included file of the repository.
set_in() {
  { [ -f "$c/config" ] && command git --git-dir="$own" config --file "$c/config" --get "$@" || command git --git-dir="$own" config --global --includes --get "$@" || command git --git-dir="$own" config --system --get "$@"; } 2>/dev/null </dev/null
}
# The top of the work tree around the current folder. git is not asked: it refuses a repository of another user, and obeys
# the settings of any other.
find_top() {
  root=$(pwd -P)
  until [ -f "$root/.git" ] || [ -e "$root/.git/HEAD" ] || [ -L "$root/.git/HEAD" ]; do
    case $root in */?*) root=${root%/*} ;; *) return 1 ;; esac
  done
  root=${root:-/}
}
# Makes `$own` for the work tree $1, whose repository is in `$d`, with the common part `$c` and the current commit `$head`.
# The objects of the repository are read, and nothing is written to it.
enter() {
  top=$1 d=$1/.git head=
  if [ -f "$d" ]; then
    d=$(sed -n '1s/^gitdir: //p' "$d")
    case $d in /*) ;; *) d=$top/$d ;; esac
  fi
  [ -f "$d/HEAD" ] || [ -L "$d/HEAD" ] || return 1
  c=$d
  if [ -f "$d/commondir" ]; then
    c=$(cat "$d/commondir")
    case $c in /*) ;; *) c=$d/$c ;; esac
  fi
  at=$((at + 1)) own=$s/own$at
  mkdir -p "$own/objects/info" "$own/refs" "$own/info" || return 1
  printf '%s\n' "$c/objects" >"$own/objects/info/alternates"
  echo 'ref: refs/heads/none' >"$own/HEAD"
  printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' >"$own/config"
  if [ -f "$c/config" ] && grep -qi 'objectformat *= *sha256' "$c/config"; then
    printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n' >>"$own/config"
  fi
  [ ! -f "$d/index" ] || cp -p "$d/index" "$own/index"
  for shared in "$d"/sharedindex.*; do
    [ ! -f "$shared" ] || cp "$shared" "$own/"
  done
  for file in exclude attributes; do
    [ ! -f "$c/info/$file" ] || cp "$c/info/$file" "$own/info/$file"
  done
  excludes=$(set_in --path core.excludesFile) || excludes=${XDG_CONFIG_HOME:-$HOME/.config}/git/ignore
  [ -f "$excludes" ] || excludes=
  crlf=$(set_in core.autocrlf) || crlf=false
  eol=$(set_in core.eol) || eol=
  [ ! -f "$d/HEAD" ] || read -r head <"$d/HEAD"
  case $head in
  'ref: '*)
    ref=${head#ref: } head=
    for file in "$d/$ref" "$c/$ref"; do
      [ -n "$head" ] || [ ! -f "$file" ] || read -r head <"$file"
    done
    [ -n "$head" ] || [ ! -f "$c/packed-refs" ] || head=$(awk -v ref="$ref" '$2 == ref { print $1 }' "$c/packed-refs")
    ;;
  esac
  # Another storage of references. The name of the commit alone is asked for, for which git starts no program.
  case $head in
  '' | *[!0-9a-f]*) head=$(cd / && GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 command git --git-dir="$d" rev-parse -q --verify HEAD 2>/dev/null) || head= ;;
  esac
  g cat-file -e "$head^{commit}" 2>/dev/null || head=
}
# The commit of the name $1. The repository's own references are asked, and nothing is fetched.
commit_of() {
  object=$(cd / && GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 command git --git-dir="$d" -c core.fsmonitor=false rev-parse -q --verify "$1" 2>/dev/null) && g rev-parse -q --verify "$object^{commit}"
}
# Makes the index of `$own` that of the repository, and $1 its current commit.
put_index() { [ ! -f "$own/index" ] || { cp -p "$own/index" "$d/index.mswea" && mv -f "$d/index.mswea" "$d/index"; }; }
put_head() { (cd / && command git --git-dir="$d" -c core.hooksPath=/dev/null -c core.fsmonitor=false update-ref --no-deref HEAD "$1"); }
# Runs $1 for the work tree at `$root` and for those inside, with the further arguments. `$where` is the place of each.
each() {
  what=$1 count=0
  shift
  echo . >"$s/queue"
  while count=$((count + 1)) && where=$(sed -n "${count}p" "$s/queue") && [ -n "$where" ]; do
    name "$where"
    case $where in .) prefix= below= folder=$root ;; *) prefix=$where/ below=$file/ folder=$root/$file ;; esac
    if [ "$count" -gt 200 ]; then
      note "more than 200 repositories are inside of each other: those from \`$where\` on are left out"
      break
    fi
    if ! enter "$folder" || ! cd "$top"; then
      [ "$what" != changes ] || bare_folder "$where"
      continue
    fi
    : >"$own/inside"
    $what "$@"
    while IFS= read -r inside; do
      name "$inside"
      if [ -e "$folder/$file/.git" ]; then
        printf '%s\n' "$prefix$inside" >>"$s/queue"
      elif [ "$what" = changes ] && grep -qxF -e "$inside" "$own/links"; then
        bare_folder "$prefix$inside"
      fi
    done <"$own/inside"
  done
}
# Those of the named files that are on the disk.
without_large() { { cat "$own/large"; echo /; } >"$own/skipped" && grep -vxF -f "$own/skipped"; }
there() {
  while IFS= read -r line; do
    name "$line"
    { [ ! -e "$file" ] && [ ! -L "$file" ]; } || printf '%s\n' "$line"
  done
}
no_links() { g ls-files -s | sed -n 's/^160000 /0 /p' | g update-index --index-info; }
# Names as they are in the outermost work tree.
prefixed() {
  while IFS= read -r line; do
    printf '%s%s\n' "$prefix" "$line"
  done
}
# The sum of the sizes of files that are not in the repository, in kilobytes.
weight() {
  sizes | awk '{ sum += $1 } END { print int(sum / 1024) }'
}
sizes() { g ls-files -z --modified --others --exclude-standard 2>/dev/null | lined | grep -v "$one" | zeroed | xargs -0 stat -c '%s %n' -- 2>/dev/null; }
# Whether there is a pipe or a device in place of a file that git reads in each folder: git would wait for it. `$odd` is its name.
is_blocked() {
  odd=$(find . -name .git -prune -o \( -name .gitignore -o -name .gitattributes \) \( -type p -o -type c -o -type b -o -type s \) -print 2>/dev/null | head -n 1)
  [ -n "$odd" ]
}
# Prepares the index: entries that git would not look at are looked at, and repositories inside are left out of it: git would
# start another git in each, with its settings. Their places go to `$own/inside`.
prepare() {
  g ls-files >/dev/null 2>&1 || rm -f "$own/index"
  [ -f "$own/index" ] || [ -z "$head" ] || g read-tree "$head" >/dev/null 2>&1
  g ls-files -z -v | lined | LC_ALL=C sed -n '/^[a-zS] /p' >"$own/flagged"
  if [ -s "$own/flagged" ]; then
    LC_ALL=C sed -n 's/^[a-z] //p' "$own/flagged" | zeroed | g update-index -z --no-assume-unchanged --stdin
    LC_ALL=C sed -n 's/^[sS] //p' "$own/flagged" | there >"$own/outside"
    zeroed <"$own/outside" | g update-index -z --no-skip-worktree --stdin
  fi
  g ls-files -z -s | lined | sed -n "s/^160000 [^$tab]*$tab//p" >"$own/links"
  no_links
  { cat "$own/links"; g ls-files -z --others --exclude-standard | lined | sed -n 's,/$,,p'; } | sort -u >"$own/inside"
} 2>/dev/null
# Adds all files to the index, but does not look into repositories inside, and not the largest files: those that make more than
# 40 MB together, for which a patch has no room.
add_all() {
  sizes | sort -n | LC_ALL=C awk '(sum += $1) > 41943040' | sort -rn | head -n 1000 | LC_ALL=C sed 's/^[0-9]* //' >"$own/large"
  set -- .
  while IFS= read -r line; do
    name "$line"
    [ -z "$line" ] || set -- "$@" ":(exclude,top,literal)$file"
  done <<END
$(cat "$own/inside" "$own/large")
END
  g add --all --ignore-errors -- "$@" >/dev/null 2>"$own/said"
}
# Adds all files to the index; `$tree` is then their tree, or empty with the reason in `$own/said`.
take() {
  add_all
  if [ $? -gt 1 ]; then
    cp "$own/info/attributes" "$own/asked" 2>/dev/null || : >"$own/asked"
    printf '\n* -text -crlf -eol -ident -working-tree-encoding\n' >>"$own/info/attributes"
    add_all
    if [ $? -gt 1 ]; then
      g ls-files -z --modified --deleted --others --exclude-standard 2>/dev/null | lined | sed '/\/$/d' | head -n 1000 | sort -u | without_large | while IFS= read -r line; do
        name "$line"
        g update-index --add --remove -- "$file" 2>/dev/null || printf '%s\n' "$prefix$line"
      done >"$own/unread"
      named 'these files can not be read, and are left out' "$own/unread"
    fi
  fi
  sed -n "s/^error: open(\"\(.*\)\").*/\1/p; s/^warning: could not open directory '\(.*\)'.*/\1/p" "$own/said" >"$own/unread"
  named 'these files can not be read, and are left out' "$own/unread"
  named 'these files are left out, because they are larger than the 40 MB that a patch can have' "$own/large"
  no_links 2>/dev/null
  # Files of a repository inside that is none any more would be new files.
  while read -r a b place; do
    name "$place"
    [ "$where$place" = .. ] || [ "$where" != . ] || [ -e "$root/$file/.git" ] || g rm -r -q --cached --ignore-unmatch -- ":(top,literal)$file" >/dev/null 2>&1
  done <"$s/bases"
  tree=$(g write-tree --missing-ok 2>>"$own/said")
}
