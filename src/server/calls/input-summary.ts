/**
 * The beginning of an input on one line, for lists of calls: `to: "ann@example.com", subject: "Invoice", lines: [12]`. Values under names
 * that stand for credentials are hidden. Reading it is journaled like reading the input, because a short input is shown whole.
 */
import { isSecretName } from '#kernel/base/secret'

const MAX_LENGTH = 200
const MAX_TEXT_LENGTH = 60
const MAX_MEMBERS = 12

/** `null` if the input is not kept. */
export function summaryOf(inputJson: string | undefined): string | null {
  if (inputJson === undefined) return null
  const line = lineOf(JSON.parse(inputJson))
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH - 1).toWellFormed()}…`
}

function lineOf(input: unknown): string {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return valueText(input)
  const members = Object.entries(input)
  const shown = members
    .slice(0, MAX_MEMBERS)
    .map(([name, value]) => `${name}: ${isSecretName(name) ? '[hidden]' : valueText(value)}`)
  const more = members.length - shown.length
  return [...shown, ...(more > 0 ? [`… ${more} more`] : [])].join(', ')
}

function valueText(value: unknown): string {
  if (Array.isArray(value))
    return value.length <= 1 && !isNested(value[0]) ? `[${value.map(valueText)}]` : `[${value.length} items]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.keys(value).join(', ').slice(0, MAX_TEXT_LENGTH)}}`
  if (typeof value !== 'string') return String(value)
  const text = value.slice(0, MAX_TEXT_LENGTH).toWellFormed().replaceAll(/\s+/g, ' ')
  return `"${text}${value.length > MAX_TEXT_LENGTH ? '…' : ''}"`
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
