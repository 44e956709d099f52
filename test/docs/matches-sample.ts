/**
 * Whether an answer is what a document shows: same members and values, where `…` in the sample stands for any
 * text or name, and numbers under `duration` and `durationMs` are not compared.
 */
export function matchesSample(sample: unknown, actual: unknown, member = ''): boolean {
  if (member === 'duration' || member === 'durationMs') return typeof actual === 'number'
  if (typeof sample === 'string' && sample.includes('…')) {
    return typeof actual === 'string' && sample.split('…').every((part) => actual.includes(part))
  }
  if (Array.isArray(sample)) {
    return (
      Array.isArray(actual) &&
      sample.length === actual.length &&
      sample.every((item, index) => matchesSample(item, actual[index]))
    )
  }
  if (isObject(sample)) {
    if (!isObject(actual)) return false
    // A placeholder name: any member with a matching value is accepted.
    if ('…' in sample) return Object.values(actual).every((value) => matchesSample(sample['…'], value))
    const names = Object.keys(sample)
    return (
      names.length === Object.keys(actual).length &&
      names.every((name) => name in actual && matchesSample(sample[name], actual[name], name))
    )
  }
  return sample === actual
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
