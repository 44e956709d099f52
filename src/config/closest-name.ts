/** The known name a typo most likely meant; `undefined` when none is near enough to be a help. */
export function closestName(typed: string, known: Iterable<string>): string | undefined {
  const wanted = typed.toLowerCase()
  let best: string | undefined
  let bestDistance = Math.ceil(wanted.length / 3) + 1
  for (const name of known) {
    const distance = editDistance(wanted, name.toLowerCase())
    if (distance >= bestDistance) continue
    best = name
    bestDistance = distance
  }
  return best
}

/** ` Did you mean "port"?` with a leading space, or nothing. */
export function didYouMean(typed: string, known: Iterable<string>): string {
  const name = closestName(typed, known)
  return name === undefined ? '' : ` Did you mean "${name}"?`
}

/** Insertions, deletions, replacements and swaps of neighbours, each counted as one. */
export function editDistance(left: string, right: string): number {
  let twoAgo: number[] = []
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1]
      const replace = at(previous, column - 1) + (same ? 0 : 1)
      const cheapest = Math.min(replace, at(previous, column) + 1, at(current, column - 1) + 1)
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      current.push(swapped ? Math.min(cheapest, at(twoAgo, column - 2) + 1) : cheapest)
    }
    twoAgo = previous
    previous = current
  }
  return at(previous, right.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
