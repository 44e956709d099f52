import { canonicalJson, childPointer, defined, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { ChangeClass } from '#kernel/journal/events'
import { upgradeInput } from '#schema/imported'
import { createSchemaResolver, propertiesOf, type SchemaResolver } from '#schema/keywords'
import { upgradeSchema } from '#schema/upgrade'
import {
  boundEffect,
  checkedMeaning,
  flatten,
  hasReference,
  isNothing,
  keywordMeaning,
  type SchemaEffect,
  setEffect,
  typesOf,
  valuesEffect,
} from './schema-meaning.ts'

/**
 * Compares two JSON Schemas of a tool and classifies each difference: wording, widening or breaking. Pins use it to
 * decide which changes an operator must review. Invariant: a change that the comparison does not understand is breaking.
 */

/** One difference between two definitions, described for the operator. */
export interface Difference {
  /** Member of the definition, followed by a JSON Pointer if the difference is deeper inside. */
  readonly where: string
  readonly class: ChangeClass
  readonly says: string
  readonly before?: JsonValue
  readonly after?: JsonValue
}

export type Side = 'input' | 'output'

/** A sender breaks if less is accepted; a receiver breaks if more may be sent. */
const CLASSES = {
  input: { narrower: 'breaking', wider: 'widening', other: 'breaking', wording: 'wording' },
  output: { narrower: 'widening', wider: 'breaking', other: 'breaking', wording: 'wording' },
} as const satisfies Record<Side, Record<SchemaEffect, ChangeClass>>

/** More differences than this, as in a rewritten schema, would not help an operator to decide. */
const MAX_DIFFERENCES = 200

interface Comparison {
  readonly side: Side
  readonly before: SchemaResolver
  readonly after: SchemaResolver
  /** True if definitions behind references differ at all. */
  readonly definitionsDiffer: boolean
  /** True if these definitions differ in more than annotations. */
  readonly meaningsDiffer: boolean
  readonly seen: Map<JsonObject, Set<JsonObject>>
  readonly found: Difference[]
}

/** The changes in a schema that matter to callers; two schemas with the same meaning differ in `wording` at most. */
export function schemaDiff(written: JsonObject, offered: JsonObject, side: Side): readonly Difference[] {
  const read = side === 'input' ? upgradeInput : upgradeSchema
  const [before, after] = [read(written), read(offered)]
  const comparison: Comparison = {
    side,
    before: createSchemaResolver(before),
    after: createSchemaResolver(after),
    definitionsDiffer: definitionsOf(before) !== definitionsOf(after),
    meaningsDiffer: meaningsOf(before) !== meaningsOf(after),
    seen: new Map(),
    found: [],
  }
  compare(before, after, side, comparison)
  const { found } = comparison
  const isOnlyWording = found.every((difference) => difference.class === 'wording')
  if (isOnlyWording && checkedMeaning(before) !== checkedMeaning(after)) {
    note(comparison, side, 'other', 'changes in a way that cannot be described in detail')
  }
  return found
}

function definitionsOf({ $defs = {}, definitions = {} }: JsonObject): string {
  return canonicalJson([$defs, definitions])
}

function meaningsOf({ $defs = {}, definitions = {} }: JsonObject): string {
  return keywordMeaning('$defs', $defs) + keywordMeaning('definitions', definitions)
}

function compare(before: JsonValue, after: JsonValue, where: string, comparison: Comparison): void {
  const left = flatten(before, comparison.before)
  const right = flatten(after, comparison.after)
  const partners = comparison.seen.get(left.from) ?? new Set()
  if (comparison.found.length >= MAX_DIFFERENCES) return
  if (partners.has(right.from)) {
    for (const keyword of new Set([...Object.keys(left.siblings), ...Object.keys(right.siblings)])) {
      compareKeyword(keyword, left.siblings, right.siblings, where, comparison)
    }
    return
  }
  comparison.seen.set(left.from, partners.add(right.from))
  if (isNothing(left) !== isNothing(right)) {
    const takesNone = isNothing(right)
    const says = takesNone ? 'is no longer allowed' : 'is allowed now'
    note(comparison, where, takesNone ? 'narrower' : 'wider', says, before, after)
    return
  }
  compareProperties(left.schema, right.schema, where, comparison)
  const keywords = new Set([...Object.keys(left.schema), ...Object.keys(right.schema)])
  for (const keyword of keywords) compareKeyword(keyword, left.schema, right.schema, where, comparison)
  const values = valuesEffect(left.schema, right.schema)
  if (values !== undefined) {
    const [oldValues, newValues] = [left.schema, right.schema].map(
      ({ enum: list, const: value }) => list ?? value,
    )
    note(comparison, where, values, 'allows other values', oldValues, newValues)
  }
}

type Compare = (
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  where: string,
  comparison: Comparison,
  keyword: string,
) => void

/** Compares two subschemas. */
const inner: Compare = (before, after, where, comparison) => {
  compare(before ?? true, after ?? true, where, comparison)
}

const bound: (direction: 'min' | 'max') => Compare = (direction) => (before, after, where, comparison) => {
  const effect = boundEffect(direction, before, after)
  if (effect !== undefined) note(comparison, where, effect, saysOf(before, after), before, after)
}

/** Compares a keyword that adds a check; if one check replaces another, the effect is unknown. */
const check: Compare = (before, after, where, comparison) => {
  if (isSame(before, after)) return
  const [wasAny, isAny] = [before === undefined || before === false, after === undefined || after === false]
  if (wasAny && isAny) return
  const effect = wasAny ? 'narrower' : isAny ? 'wider' : 'other'
  note(comparison, where, effect, saysOf(before, after), before, after)
}

/** Compares keywords whose effect on the accepted values is not analysed. */
const opaque: Compare = (before, after, where, comparison, keyword) => {
  const mayDiffer = comparison.meaningsDiffer && before !== undefined && hasReference(before)
  if (isSame(before, after) && !mayDiffer) return
  const isReworded = !mayDiffer && meansTheSame(keyword, before, after)
  note(comparison, where, isReworded ? 'wording' : 'other', saysOf(before, after), before, after)
}

/** Compares lists of schemas: all of them must accept a value (`allOf`), or any (`anyOf`). */
const branches: (all: boolean) => Compare = (all) => (before, after, where, comparison, keyword) => {
  if (!comparison.meaningsDiffer && !isSame(before, after) && meansTheSame(keyword, before, after)) {
    note(comparison, where, 'wording', saysOf(before, after), before, after)
    return
  }
  const left = Array.isArray(before) ? before : []
  const right = Array.isArray(after) ? after : []
  const [had, has] = [new Set(left.map(canonicalJson)), new Set(right.map(canonicalJson))]
  const lost = left.filter((branch) => !has.has(canonicalJson(branch)))
  const gained = right.filter((branch) => !had.has(canonicalJson(branch)))
  const [lostOne, gainedOne] = [lost[0], gained[0]]
  const gone = new Set(lost)
  for (const branch of left) {
    if (comparison.definitionsDiffer && !gone.has(branch)) compare(branch, branch, where, comparison)
  }
  if (lost.length === 1 && gained.length === 1 && lostOne !== undefined && gainedOne !== undefined) {
    compare(lostOne, gainedOne, where, comparison)
  } else if (lost.length > 0 && gained.length > 0) {
    note(comparison, where, 'other', 'has other alternatives', before, after)
  } else if (lost.length > 0 || gained.length > 0) {
    const isMore = gained.length > 0
    // An added alternative accepts more values, an added condition fewer. The first alternative is a condition.
    const isFirstOrLast = left.length === 0 || right.length === 0
    const takesMore = all || isFirstOrLast ? !isMore : isMore
    note(comparison, where, takesMore ? 'wider' : 'narrower', saysOf(before, after), before, after)
  }
}

/** Compares `oneOf` like `anyOf` if no value can match two alternatives; otherwise another alternative may exclude a value. */
const exactlyOne: Compare = (before, after, where, comparison, keyword) => {
  const isDisjoint = areDisjoint(before, comparison.before) && areDisjoint(after, comparison.after)
  const compareBranches = isDisjoint ? branches(false) : opaque
  compareBranches(before, after, where, comparison, keyword)
}

function areDisjoint(list: JsonValue | undefined, resolve: SchemaResolver): boolean {
  const types = (Array.isArray(list) ? list : []).flatMap((branch) => [
    ...typesOf(flatten(branch, resolve).schema.type),
  ])
  return new Set(types).size === types.length
}

const types: Compare = (before, after, where, comparison) => {
  const effect = setEffect(typesOf(before), typesOf(after))
  if (effect !== undefined) note(comparison, where, effect, 'takes other types', before, after)
}

/** For keywords that are compared elsewhere: together with `required`, or where they are referenced. */
const elsewhere: Compare = () => {}

const wording: Compare = (before, after, where, comparison) => {
  if (!isSame(before, after)) note(comparison, where, 'wording', saysOf(before, after), before, after)
}

/** How each keyword is compared; all others are annotations. */
const KEYWORDS: ReadonlyMap<string, Compare> = new Map([
  ...rows(elsewhere, 'properties', 'required', 'enum', 'const', '$defs', 'definitions'),
  ...rows(elsewhere, '$schema', '$id', '$anchor', '$dynamicAnchor'),
  ...rows(types, 'type'),
  ...rows(inner, 'additionalProperties', 'propertyNames', 'items', 'contentSchema'),
  ...rows(branches(true), 'allOf'),
  ...rows(branches(false), 'anyOf'),
  ...rows(exactlyOne, 'oneOf'),
  ...rows(
    bound('min'),
    'minimum',
    'exclusiveMinimum',
    'minLength',
    'minItems',
    'minProperties',
    'minContains',
  ),
  ...rows(
    bound('max'),
    'maximum',
    'exclusiveMaximum',
    'maxLength',
    'maxItems',
    'maxProperties',
    'maxContains',
  ),
  ...rows(check, 'pattern', 'format', 'multipleOf', 'uniqueItems', 'contentEncoding', 'contentMediaType'),
  ...rows(opaque, '$ref', '$dynamicRef', 'not', 'if', 'then', 'else', 'contains', 'prefixItems'),
  ...rows(opaque, 'patternProperties', 'dependentSchemas', 'dependentRequired', 'dependencies'),
  ...rows(opaque, 'unevaluatedProperties', 'unevaluatedItems'),
])

/** Entries of keywords that are compared in the same way. */
function rows(compareValues: Compare, ...keywords: string[]): readonly (readonly [string, Compare])[] {
  return keywords.map((keyword) => [keyword, compareValues])
}

function compareKeyword(
  keyword: string,
  before: JsonObject,
  after: JsonObject,
  where: string,
  comparison: Comparison,
): void {
  const compareValues = KEYWORDS.get(keyword) ?? wording
  compareValues(before[keyword], after[keyword], childPointer(where, keyword), comparison, keyword)
}

/** A removed or newly required property is breaking; a new optional property is widening, for both sides. */
function compareProperties(
  before: JsonObject,
  after: JsonObject,
  where: string,
  comparison: Comparison,
): void {
  const [left, right] = [propertiesOf(before), propertiesOf(after)]
  const [requiredBefore, requiredAfter] = [requiredOf(before), requiredOf(after)]
  for (const name of new Set([
    ...Object.keys(left),
    ...Object.keys(right),
    ...requiredBefore,
    ...requiredAfter,
  ])) {
    const pointer = childPointer(`${where}/properties`, name)
    const schemaBefore = Object.hasOwn(left, name) ? left[name] : undefined
    const schemaAfter = Object.hasOwn(right, name) ? right[name] : undefined
    const isRequired = requiredAfter.has(name)
    if (schemaBefore !== undefined && schemaAfter === undefined) {
      comparison.found.push({ where: pointer, class: 'breaking', says: 'is gone', before: schemaBefore })
    } else if (schemaBefore === undefined && schemaAfter !== undefined) {
      const found = isRequired && comparison.side === 'input' ? 'breaking' : 'widening'
      const says = isRequired ? 'is new and required' : 'is new'
      comparison.found.push({ where: pointer, class: found, says, after: schemaAfter })
    } else {
      if (schemaBefore !== undefined && schemaAfter !== undefined)
        compare(schemaBefore, schemaAfter, pointer, comparison)
      if (requiredBefore.has(name) === isRequired) continue
      const says = isRequired ? 'is now required' : 'is no longer required'
      note(comparison, pointer, isRequired ? 'narrower' : 'wider', says)
    }
  }
}

function requiredOf({ required }: JsonObject): ReadonlySet<string> {
  return new Set(Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [])
}

function isSame(before: JsonValue | undefined, after: JsonValue | undefined): boolean {
  if (before === undefined || after === undefined) return before === after
  return canonicalJson(before) === canonicalJson(after)
}

function meansTheSame(keyword: string, before: JsonValue | undefined, after: JsonValue | undefined): boolean {
  if (before === undefined || after === undefined) return false
  return keywordMeaning(keyword, before) === keywordMeaning(keyword, after)
}

function saysOf(before: JsonValue | undefined, after: JsonValue | undefined): string {
  if (before === undefined) return 'is new'
  return after === undefined ? 'is gone' : 'changes'
}

function note(
  { side, found }: Comparison,
  where: string,
  effect: SchemaEffect,
  says: string,
  before?: JsonValue,
  after?: JsonValue,
): void {
  if (found.length >= MAX_DIFFERENCES) return
  found.push(defined({ where, class: CLASSES[side][effect], says, before, after }))
}
