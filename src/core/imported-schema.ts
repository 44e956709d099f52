import { describeValue } from './describe-value.ts'
import type { Report } from './finding.ts'
import type { JsonObject } from './json.ts'
import { modernSchema } from './modern-schema.ts'
import { relaxPatterns } from './relax-patterns.ts'
import { checkSchema } from './schema-check.ts'
import { inlineSchema } from './schema-inline.ts'

/** What is published of a schema that somebody else wrote, and what values are held against. */
export interface ImportedSchema {
  readonly schema: JsonObject
  /** Made when it is first needed: few of many imported tools are ever called. */
  readonly enforced: () => JsonObject
}

/** Tried in turn when a schema is too large to be written out whole: a shallow one still tells the parameters. */
const DEPTHS = [Number.POSITIVE_INFINITY, 12, 8, 6, 5, 4, 3, 2] as const

/**
 * How much of it callers are shown: a list is read by models, tool by tool. An answer explains itself when it comes;
 * what to send has to be known before.
 */
const MOST_SHOWN = { input: 65_536, output: 8_192 } as const

/**
 * Reads a schema that somebody else wrote. What nobody can check is a finding; what is only odd, such as a pattern
 * that no linear-time engine runs, is told and the tool stays.
 */
export function readImportedSchema(
  written: unknown,
  where: 'input' | 'output',
  report: Report,
  tell: Report,
): ImportedSchema | undefined {
  if (!isSchema(written)) {
    report(where, `Is ${describeValue(written)}.`, 'The upstream has to send JSON Schema as an object.')
    return undefined
  }
  const modern = modernSchema(written)
  const { schema: relaxedSchema, relaxed } = relaxPatterns(modern)
  for (const { pointer, pattern, problem } of relaxed) {
    tell(
      `${where}${pointer}`,
      `The pattern ${JSON.stringify(pattern)} cannot run in linear time: ${problem}.`,
      'It is shown to callers and left to the upstream to enforce.',
    )
  }
  if (!checkSchema(relaxedSchema, where, report, { references: 'allowed' })) return undefined
  let isSound = true
  const say: Report = (...finding) => {
    isSound = false
    report(...finding)
  }
  const schema = publish(modern, where, say, tell)
  if (!isSound) return undefined
  return { schema, enforced: () => relaxPatterns(modernSchema(written)).schema }
}

function isSchema(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function publish(schema: JsonObject, where: 'input' | 'output', report: Report, tell: Report): JsonObject {
  let published: JsonObject = {}
  let isCut = false
  for (const deepest of DEPTHS) {
    let isTooLarge = false
    isCut ||= deepest !== Number.POSITIVE_INFINITY
    published = inlineSchema(schema, where, report, {
      deepest,
      mostCharacters: MOST_SHOWN[where],
      onCut: (why) => {
        isCut = true
        isTooLarge ||= why === 'size'
      },
    })
    if (!isTooLarge) break
  }
  if (isCut) {
    tell(
      where,
      'The schema contains itself or is too large to write out: parts of what callers see are cut to `{}`.',
      'Values are still held against the whole schema.',
    )
  }
  return published
}
