/*
 * Formats counts, times, durations, hashes and sizes for people. Used by several pages. Times are in the reader's time zone.
 */

const COUNT = new Intl.NumberFormat('en-US')
const DATE = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
const DAY_MS = 86_400_000

/** `1,284` */
export function formatCount(count: number): string {
  return COUNT.format(count)
}

/** `3 tools`, `1 tool` */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** `0.4 ms`, `340 ms`, `1.4 s`, `4 m 16 s`, `3 h 5 m`, `2 d 4 h` */
export function formatDuration(ms: number): string {
  // With these limits, rounding never writes 10.0 ms, 1000 ms, 10.0 s or 60 s.
  if (ms < 0.05) return '<0.1 ms'
  if (ms < 9.95) return `${ms.toFixed(1)} ms`
  if (ms < 999.5) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 59.5) return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`
  return formatLong(Math.round(seconds))
}

function formatLong(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const
  const first = units.findIndex(([, size]) => seconds >= size)
  let rest = seconds
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(rest / size)
    rest -= count * size
    return count === 0 ? '' : `${count} ${name}`
  })
  return parts.filter((part) => part !== '').join(' ')
}

/** `12:04:31` in the reader's time zone, `12:04` without seconds, `12:04:31.208` with `withMs`. A time more than a day away gets its date. */
export function formatClock(
  time: Date | string | number,
  { withSeconds = true, withMs = false, now = Date.now() } = {},
): string {
  const date = new Date(time)
  const clock = [date.getHours(), date.getMinutes(), ...(withSeconds ? [date.getSeconds()] : [])]
    .map(two)
    .join(':')
  const whole = withMs ? `${clock}.${String(date.getMilliseconds()).padStart(3, '0')}` : clock
  return Math.abs(now - date.getTime()) < DAY_MS ? whole : `${DATE.format(date)}, ${whole}`
}

/** `4 s ago`, `3 h ago`, `94 d ago`, in the largest unit. */
export function formatAgo(time: Date | string | number, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - new Date(time).getTime()) / 1000))
  const [largest = 'now'] = seconds === 0 ? [] : (/^\d+ [dhms]/.exec(formatLong(seconds)) ?? [])
  return largest === 'now' ? 'now' : `${largest} ago`
}

/** `12 Feb 2027` */
export function formatDate(time: Date | string | number): string {
  return DATE.format(new Date(time))
}

function two(part: number): string {
  return String(part).padStart(2, '0')
}

/** `e41b…07c9`; shorter hashes are returned whole. */
export function shortHash(hash: string): string {
  const bare = hash.replace(/^sha256[:-]/, '')
  return bare.length <= 12 ? bare : `${bare.slice(0, 4)}…${bare.slice(-4)}`
}

/** `4.2 kB` */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const [size, unit] = bytes < 1_000_000 ? [bytes / 1000, 'kB'] : [bytes / 1_000_000, 'MB']
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${unit}`
}
