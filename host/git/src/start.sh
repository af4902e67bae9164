# Says of each work tree: `start COMMIT TREE PLACE`.
#
# $1: `names`: the tree stays unknown, and the changed files are named. `own`, `any`: a tree that is no commit's is kept in the
# repository, where git removes it after some weeks, unless its files are large or, with `own`, the repository is another user's.
start() {
  tree=
  if is_blocked; then
    : >"$own/inside"
    echo "@mswea start ${head:--} - $where"
    return
  fi
  prepare
  case $1 in
  names)
    { g ls-files -z --modified --others --exclude-standard; [ -z "$head" ] || g diff --cached --name-only -z --ignore-submodules=all "$head"; } 2>/dev/null |
      lined | sed -n '/[^/]$/p' | sort -u | head -n 50 | while IFS= read -r file; do
      printf '@mswea changed %s\n' "$prefix$file"
    done
    ;;
  *)
    if [ "$(weight)" -le 102400 ]; then
      take
      if [ -n "$head" ] && [ -n "$tree" ] && g diff-tree --quiet --ignore-submodules=all "$head" "$tree" >/dev/null 2>&1; then
        tree=$(g rev-parse "$head^{tree}")
      elif [ -n "$tree" ]; then
        keep "$1" || tree=
      fi
    fi
    ;;
  esac
  echo "@mswea start ${head:--} ${tree:--} $where"
}
keep() {
  [ -w "$c/objects" ] && { [ "$1" != own ] || [ -O "$c/objects" ]; } || return 1
  cd "$own/objects" || return 1
  for object in ??/*; do
    [ -f "$object" ] && [ ! -e "$c/objects/$object" ] || continue
    mkdir -p "$c/objects/${object%/*}" && cp "$object" "$c/objects/${object%/*}/tmp_obj_$$" && mv -f "$c/objects/${object%/*}/tmp_obj_$$" "$c/objects/$object" || return 1
  done
  cd "$top"
}
