import { copyJson, isJsonObject, type JsonValue } from '#core/json'
import {
  type ConversionMode,
  distinctLosses,
  isFatal,
  SchemaConversionError,
  type SchemaLoss,
} from './codec-convert-loss.ts'
import { type AnyFallback, type Lowered, Lowering, withDescription } from './codec-convert-lower.ts'
import { ShapeReader } from './codec-convert-read.ts'
import type { Shape } from './codec-convert-shape.ts'
import { composeDescription } from './codec-convert-text.ts'
import { SCHEMA_DESCRIPTION } from './codec-convert-to-json.ts'
import { inferType } from './codec-convert-union.ts'
import type { OpenToolParameter, OpenToolReturn } from './codec-document.ts'

export interface FromJsonSchemaOptions {
  /** `strict` unless told (OTS-83). */
  readonly mode?: ConversionMode
  /** What stands for "any value"; `object` unless told. */
  readonly anyFallback?: AnyFallback
}

export interface FromInputSchemaOptions extends FromJsonSchemaOptions {
  /** A schema that is no object becomes one parameter `input`; refused unless told. */
  readonly wrap?: boolean
}

export interface ConvertedInput {
  readonly parameters: readonly OpenToolParameter[]
  /** What the schema says of the input as a whole. */
  readonly description?: string
  readonly losses: readonly SchemaLoss[]
}

/**
 * The parameters that a JSON Schema of an input describes (OTS-81, OTS-82). Widens: what the schema accepts
 * the parameters accept, except where a loss is `approximated`. Throws `SchemaConversionError` (OTS-83).
 */
export function fromJsonSchema(schema: unknown, options: FromInputSchemaOptions = {}): ConvertedInput {
  const { shape, lowering } = open(schema, options)
  inferType(shape)
  if (options.wrap === true && shape.types !== undefined && !shape.types.includes('object')) {
    const parameter = parameterOf('input', lowering.lower(shape), true)
    return close(lowering, options, { parameters: [parameter] })
  }
  const description = lowerRoot(shape, lowering)
  const parameters = [...lowering.members(shape), ...undescribed(shape, lowering)].flatMap(
    ({ name, lowered, required }) => {
      if (name !== '') return [parameterOf(name, lowered, required)]
      // A parameter must have a name (OTS-11).
      const from = { pointer: '/properties/', keyword: 'properties' }
      lowering.lose(from, required ? 'unrepresentable' : 'dropped')
      return []
    },
  )
  return close(lowering, options, { parameters, ...(description === undefined ? {} : { description }) })
}

export interface FromOutputSchemaOptions extends FromJsonSchemaOptions {
  readonly name: string
}

export interface ConvertedOutput {
  readonly return: OpenToolReturn
  readonly losses: readonly SchemaLoss[]
}

/** The return that a JSON Schema of an output value describes; the value travels under `name` (OTS-38). */
export function returnFromJsonSchema(schema: unknown, options: FromOutputSchemaOptions): ConvertedOutput {
  const { shape, lowering } = open(schema, options)
  if (shape.never) lowering.lose({ pointer: '', keyword: 'type' }, 'unrepresentable')
  const { required, ...described } = parameterOf(options.name, lowering.lower(shape), true)
  return close(lowering, options, { return: described })
}

function open(schema: unknown, options: FromJsonSchemaOptions): { shape: Shape; lowering: Lowering } {
  const copied = copyJson(schema)
  if (!copied.ok) {
    const loss: SchemaLoss = { pointer: copied.pointer, keyword: '', severity: 'unrepresentable' }
    throw new SchemaConversionError([loss], options.mode ?? 'strict')
  }
  const root: JsonValue = copied.value
  const reader = new ShapeReader(isJsonObject(root) ? root : {})
  return { shape: reader.read(root, ''), lowering: new Lowering(options.anyFallback ?? 'object') }
}

/** The root must be an object; its text is about the input as a whole. */
function lowerRoot(shape: Shape, lowering: Lowering): string | undefined {
  for (const loss of shape.losses) lowering.losses.push(loss)
  const from = { pointer: '', keyword: 'type' }
  const types = shape.types ?? []
  if (shape.never || (shape.types !== undefined && !types.includes('object'))) {
    lowering.lose(from, 'unrepresentable')
  } else if (shape.types === undefined) lowering.lose(from, 'approximated')
  else if (types.length > 1) lowering.lose(shape.typesFrom, 'approximated')
  if (shape.nullable !== undefined) lowering.lose(shape.nullable, 'approximated')
  if (shape.enum !== undefined) lowering.lose(shape.enumFrom, 'dropped')
  return composeDescription({
    text: shape.description ?? shape.title?.text,
    alternatives: shape.alternatives,
    nullable: false,
    notes: [...shape.notes],
  })
}

/** Names that are required but not described: any value, and a caller must know of them. */
function undescribed(shape: Shape, lowering: Lowering) {
  return [...shape.required]
    .filter((name) => !shape.properties.has(name))
    .map((name) => {
      lowering.lose({ pointer: '/required', keyword: 'required' }, 'approximated')
      return { name, lowered: lowering.anything(), required: true }
    })
}

function parameterOf(name: string, lowered: Lowered, required: boolean): OpenToolParameter {
  const { [SCHEMA_DESCRIPTION]: kept, ...schema } = lowered.schema
  const inner = { ...lowered, schema, description: typeof kept === 'string' ? kept : undefined }
  const { description } = lowered
  return {
    name,
    ...(description === undefined ? {} : { description }),
    schema: withDescription(inner),
    required: required && !lowered.nullable,
  }
}

function close<Result>(
  { losses: all }: Lowering,
  { mode = 'strict' }: FromJsonSchemaOptions,
  result: Result,
): Result & { readonly losses: readonly SchemaLoss[] } {
  const losses = distinctLosses(all)
  if (losses.some(({ severity }) => isFatal(severity, mode))) throw new SchemaConversionError(losses, mode)
  return { ...result, losses }
}
