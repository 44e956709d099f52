import { childPointer, copyJson, defined, isJsonObject, type JsonArray } from '#kernel/base/json'
import { ShapeReader, shortText } from './codec-convert-read.ts'
import {
  acceptsNull,
  acceptsType,
  type ConversionMode,
  distinctLosses,
  inferType,
  isFatal,
  type LossSeverity,
  type Origin,
  SchemaConversionError,
  type SchemaLoss,
  type Shape,
  typeOfValue,
  widestTypes,
} from './codec-convert-shape.ts'
import type {
  OpenToolParameter,
  OpenToolReturn,
  OpenToolSchema,
  OpenToolType,
  OpenToolValueSchema,
} from './codec-document.ts'
import { SCHEMA_DESCRIPTION } from './codec-to-json-schema.ts'

/*
 * Converts JSON Schema of inputs and outputs to OpenTool parameters and returns, and reports what is lost
 * (OTS-81, OTS-82). Used by `codec-convert-tools.ts` and exported to users.
 * Invariant: the result accepts every value that the schema accepts, except where a loss is `approximated`.
 */

export interface FromJsonSchemaOptions {
  /** Default `strict`. */
  readonly mode?: ConversionMode
  /** The type that replaces "any value". Default `object`. */
  readonly anyFallback?: AnyFallback
}

export interface FromInputSchemaOptions extends FromJsonSchemaOptions {
  /** If true, a schema that is not an object becomes one parameter `input`. Default: it is refused. */
  readonly wrap?: boolean
}

export interface ConvertedInput {
  readonly parameters: readonly OpenToolParameter[]
  readonly description?: string
  readonly losses: readonly SchemaLoss[]
}

/**
 * Converts the JSON Schema of an input to parameters. The parameters accept every value that the schema
 * accepts, except where a loss is `approximated`. Throws `SchemaConversionError`.
 */
export function fromJsonSchema(schema: unknown, options: FromInputSchemaOptions = {}): ConvertedInput {
  const { shape, lowering } = open(schema, options)
  inferType(shape)
  if (options.wrap === true && shape.types !== undefined && !shape.types.includes('object')) {
    const parameter = parameterOf('input', lowering.lower(shape), true)
    return close(lowering, options, { parameters: [parameter] })
  }
  const description = lowerRoot(shape, lowering)
  const members = [...lowering.members(shape), ...undescribedMembers(shape, lowering)]
  const parameters = members.flatMap(({ name, lowered, required }) => {
    if (name !== '') return [parameterOf(name, lowered, required)]
    // A parameter must have a name (OTS-11).
    const from = { pointer: '/properties/', keyword: 'properties' }
    lowering.lose(from, required ? 'unrepresentable' : 'dropped')
    return []
  })
  return close(lowering, options, defined({ parameters, description }))
}

export interface FromOutputSchemaOptions extends FromJsonSchemaOptions {
  readonly name: string
}

export interface ConvertedOutput {
  readonly return: OpenToolReturn
  readonly losses: readonly SchemaLoss[]
}

/** Converts the JSON Schema of an output value to a return; the value is sent under `name`. */
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
  const reader = new ShapeReader(isJsonObject(copied.value) ? copied.value : {})
  return { shape: reader.read(copied.value, ''), lowering: new Lowering(options.anyFallback) }
}

/** The root must be an object; its description is about the input as a whole. */
function lowerRoot(shape: Shape, lowering: Lowering): string | undefined {
  for (const loss of shape.losses) lowering.losses.push(loss)
  const { types, never, nullable, alternatives, notes } = shape
  const from = { pointer: '', keyword: 'type' }
  if (never || types?.includes('object') === false) lowering.lose(from, 'unrepresentable')
  else if (types === undefined) lowering.lose(from, 'approximated')
  else if (types.length > 1) lowering.lose(shape.typesFrom, 'approximated')
  if (nullable !== undefined) lowering.lose(nullable, 'approximated')
  if (shape.enum !== undefined) lowering.lose(shape.enumFrom, 'dropped')
  const text = shape.description ?? shape.title?.text
  return composeDescription({ text, alternatives, nullable: false, notes })
}

/** Required names without a schema become parameters of any value, because callers must send them. */
function undescribedMembers({ required, properties }: Shape, lowering: Lowering): readonly LoweredMember[] {
  const names = [...required].filter((name) => !properties.has(name))
  if (names.length > 0) lowering.lose({ pointer: '/required', keyword: 'required' }, 'approximated')
  const lowered = { schema: lowering.anything(), description: undefined, nullable: false }
  return names.map((name) => ({ name, lowered, required: true }))
}

function parameterOf(name: string, lowered: LoweredSchema, required: boolean): OpenToolParameter {
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

/** The type that replaces a schema which accepts any value. */
export type AnyFallback = 'object' | 'string'

interface LoweredSchema {
  /** The schema without its description, which a parameter takes over. */
  readonly schema: OpenToolValueSchema
  readonly description: string | undefined
  /** True if the source also accepts null; then the parent makes it optional. */
  readonly nullable: boolean
}

/** Converts shapes to OpenTool schemas and collects losses (OTS-81, OTS-82). */
class Lowering {
  readonly losses: SchemaLoss[] = []
  readonly #anyFallback: AnyFallback

  constructor(anyFallback: AnyFallback = 'object') {
    this.#anyFallback = anyFallback
  }

  lower(shape: Shape): LoweredSchema {
    inferType(shape)
    this.#takeLosses(shape)
    const nullable = this.#takeNull(shape)
    const alternatives = [...shape.alternatives]
    const chosen = shape.enum === undefined ? undefined : this.#chooseEnum(shape, shape.enum, alternatives)
    const type = chosen?.type ?? this.#chooseType(shape, alternatives)
    const text = shape.description ?? this.#takeTitle(shape)
    const description = composeDescription({ text, alternatives, nullable, notes: shape.notes })
    const schema = type === undefined ? this.anything() : { type, ...this.#membersOf(type, shape) }
    const enumeration = chosen?.values === undefined ? {} : { enum: chosen.values }
    return { schema: { ...schema, ...enumeration, ...shape.extensions }, description, nullable }
  }

  /** `properties` and `required` of an object; also of the root, whose properties are parameters. */
  members(shape: Shape): readonly LoweredMember[] {
    const members: LoweredMember[] = []
    for (const [name, property] of shape.properties) {
      const required = shape.required.has(name)
      if (property.never) {
        const from = { pointer: property.pointer, keyword: 'properties' }
        this.lose(from, required ? 'unrepresentable' : 'dropped')
      } else {
        const lowered = this.lower(property)
        members.push({ name, lowered, required: required && !lowered.nullable })
      }
    }
    return members
  }

  lose(from: Origin, severity: LossSeverity): void {
    this.losses.push({ ...from, severity })
  }

  anything(): OpenToolValueSchema {
    return this.#anyFallback === 'string' ? { type: 'string' } : { type: 'object', properties: {} }
  }

  #takeLosses(shape: Shape): void {
    for (const loss of shape.losses) this.losses.push(loss)
    if (shape.types === undefined && !shape.reported) {
      this.lose({ pointer: shape.pointer, keyword: 'type' }, 'approximated')
    }
  }

  /** Removes null, which OpenTool does not have. Returns true if the value becomes optional. */
  #takeNull(shape: Shape): boolean {
    const accepted = acceptsNull(shape)
    if (accepted) this.lose(shape.typesFrom, 'approximated')
    else if (shape.nullable !== undefined) this.lose(shape.nullable, 'approximated')
    shape.types = shape.types?.filter((type) => type !== 'null')
    return accepted || shape.nullable !== undefined
  }

  #takeTitle({ title }: Shape): string | undefined {
    if (title !== undefined) this.lose(title.from, 'annotated')
    return title?.text
  }

  /** Keeps the values if all have one scalar type. Values of several types are listed in the description; structured values are left out. */
  #chooseEnum(shape: Shape, written: JsonArray, alternatives: string[]): ChosenEnum | undefined {
    const values = written.filter((value) => value !== null && acceptsType(shape, value))
    const [first, ...more] = widestTypes(values.map(typeOfValue))
    if (first === undefined || first === 'null') {
      // Null alone was handled by `#takeNull`.
      if (!written.includes(null)) this.lose(shape.enumFrom, 'unrepresentable')
      return undefined
    }
    if (more.length > 0) {
      this.lose(shape.enumFrom, 'approximated')
      alternatives.push(...values.slice(0, MAX_LISTED).map((value) => shortText(JSON.stringify(value))))
    } else if (first !== 'object' && first !== 'array') return { type: first, values }
    else this.lose(shape.enumFrom, 'dropped')
    return { type: first }
  }

  #chooseType(shape: Shape, alternatives: string[]): OpenToolType | undefined {
    const [first, ...more] = widestTypes(shape.types ?? []).filter((type) => type !== 'null')
    if (more.length > 0 && first !== undefined) {
      this.lose(shape.typesFrom, 'approximated')
      alternatives.push(first, ...more)
    }
    return first
  }

  #membersOf(type: OpenToolType, shape: Shape): Partial<OpenToolValueSchema> {
    if (type === 'array') return { items: this.#itemsOf(shape) }
    if (type !== 'object') return {}
    const members = this.members(shape)
    const properties = Object.fromEntries(
      members.map(({ name, lowered }) => [name, withDescription(lowered)]),
    )
    const optional = new Set(members.filter((member) => !member.required).map(({ name }) => name))
    const required = [...shape.required].filter((name) => !optional.has(name))
    return { properties, ...(required.length === 0 ? {} : { required }) }
  }

  #itemsOf(shape: Shape): OpenToolSchema {
    if (shape.items !== undefined) return withDescription(this.lower(shape.items))
    this.lose({ pointer: childPointer(shape.pointer, 'items'), keyword: 'items' }, 'approximated')
    return this.anything()
  }
}

const MAX_LISTED = 20

interface ChosenEnum {
  readonly type: OpenToolType
  readonly values?: JsonArray
}

interface LoweredMember {
  readonly name: string
  readonly lowered: LoweredSchema
  readonly required: boolean
}

function withDescription({ schema, description }: LoweredSchema): OpenToolValueSchema {
  const { type, ...rest } = schema
  return { type, ...(description === undefined ? {} : { description }), ...rest }
}

/** Example: `Size of the page. One of: …. May be null. Constraints: minimum 1; maximum 9`. `undefined` if empty. */
function composeDescription({
  text,
  alternatives,
  nullable,
  notes,
}: Pick<Shape, 'alternatives' | 'notes'> & {
  readonly text: string | undefined
  readonly nullable: boolean
}): string | undefined {
  const added = [
    ...(alternatives.length > 0 ? [`One of: ${alternatives.join(', ')}`] : []),
    ...(nullable ? ['May be null'] : []),
    ...(notes.size > 0 ? [`Constraints: ${[...notes].join('; ')}`] : []),
  ].join('. ')
  return added === '' ? text : joinSentences(text ?? '', added)
}

/** Joins two texts with a full stop between them. */
export function joinSentences(first: string, second: string): string {
  const start = first.trimEnd()
  if (start === '' || second === '') return start === '' ? second : first
  return /[.!?:;]$/.test(start) ? `${start} ${second}` : `${start}. ${second}`
}
