import type { Report } from './finding.ts'
import { didYouMean } from './nearest-name.ts'

/** Reports members a closed object does not have (OTC-41). */
export function checkKeys(value: object, known: readonly string[], where: string, report: Report): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    const place = where === '' ? key : `${where}/${key}`
    report(place, `"${key}" is not known here.${didYouMean(key, known)}`, `Known are: ${known.join(', ')}.`)
  }
}
