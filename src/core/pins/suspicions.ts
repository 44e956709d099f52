import { isJsonObject, type JsonValue } from '#core/json'
import { childPointer } from '#core/json-pointer'
import type { OfferedTool } from '#core/ports/source'
import { hiddenCharacter, mixedWord } from './hidden-characters.ts'
import { instructionIn } from './instructions.ts'

/** Something in a definition's texts that no honest definition needs. */
export interface Suspicion {
  readonly where: string
  readonly says: string
}

/** Enough to decide on. */
const MOST_SUSPICIONS = 20

/**
 * Texts that speak to the model instead of describing the tool, that hide something, or that ask for what is none of
 * the tool's business. Every text of a definition reaches models: names, defaults and enums as well as descriptions.
 */
export function suspicionsOf(offered: OfferedTool, read: TextReader = suspicionIn): readonly Suspicion[] {
  const found: Suspicion[] = []
  const look = (where: string, text: string): void => {
    if (found.length >= MOST_SUSPICIONS) return
    const says = read(withoutOwnOrder(text, offered.nativeName))
    if (says !== undefined) found.push({ where, says })
  }
  const { nativeName, title, description, inputSchema, outputSchema } = offered
  look('name', nativeName)
  if (title !== undefined) look('title', title)
  look('description', description)
  visitTexts(inputSchema, 'input', look)
  visitTexts(outputSchema, 'output', look)
  return found
}

/** "Call this before any other Shopify tool": a tool may say in which order it and its own siblings are used. */
const ORDER =
  /\b(before|instead of) ((?:any|all|every)(?: of)?(?: the)?(?: other)?|other) ([a-z][a-z0-9]{3,30}) (tools?|functions?)\b/gi

function withoutOwnOrder(text: string, nativeName: string): string {
  if (!text.includes('ool') && !text.includes('OOL') && !/function/i.test(text)) return text
  const own = new Set(nativeName.toLowerCase().split(/[^a-z0-9]+/))
  return text.replaceAll(ORDER, (order: string, _when: string, _which: string, whose: string) =>
    own.has(whose.toLowerCase()) ? 'in their order' : order,
  )
}

export type TextReader = (text: string) => string | undefined

/** Reads each text once: the tools of one upstream say the same things over and over. */
export function createTextReader(): TextReader {
  const known = new Map<string, string | undefined>()
  return (text) => {
    if (IDENTIFIER.test(text)) return undefined
    if (!known.has(text)) known.set(text, suspicionIn(text))
    return known.get(text)
  }
}

/** A name of a property or a keyword: no room for hidden or spoken words. */
const IDENTIFIER = /^[\w$.:-]{1,24}$/

export function suspicionIn(text: string): string | undefined {
  const hidden = hiddenCharacter(text)
  if (hidden !== undefined) return hidden
  const mixed = mixedWord(text)
  if (mixed !== undefined) return `has a word of mixed alphabets: ${JSON.stringify(mixed.slice(0, 40))}`
  return instructionIn(text)
}

function visitTexts(value: JsonValue, where: string, look: (where: string, text: string) => void): void {
  if (typeof value === 'string') look(where, value)
  if (typeof value !== 'object' || value === null) return
  if (!isJsonObject(value)) {
    for (const [index, member] of value.entries()) visitTexts(member, childPointer(where, index), look)
    return
  }
  for (const [name, member] of Object.entries(value)) {
    const place = childPointer(where, name)
    look(place, name)
    // A pattern is for engines, not for readers.
    if (name !== 'pattern' || typeof member !== 'string') visitTexts(member, place, look)
  }
}
