import { childPointer, type JsonArray, setMember } from '#core/json'
import { wordsOf } from './codec-convert-keywords.ts'
import type { LossSeverity, SchemaLoss } from './codec-convert-loss.ts'
import {
  acceptsNull,
  acceptsType,
  type Origin,
  type Shape,
  typeOfValue,
  widestTypes,
} from './codec-convert-shape.ts'
import { composeDescription } from './codec-convert-text.ts'
import { inferType } from './codec-convert-union.ts'
import type { OpenToolSchema, OpenToolType, OpenToolValueSchema } from './codec-document.ts'

/** What stands for a schema that anything fits. */
export type AnyFallback = 'object' | 'string'

/** An OpenTool schema and what its parent must know. */
export interface Lowered {
  /** Without its description, which a parameter takes for itself. */
  readonly schema: OpenToolValueSchema
  readonly description: string | undefined
  /** The source accepts null as well: whoever holds it makes it optional. */
  readonly nullable: boolean
}

/** Writes shapes as OpenTool schemas and collects what is lost (OTS-81, OTS-82). */
export class Lowering {
  readonly losses: SchemaLoss[] = []
  readonly #anyFallback: AnyFallback

  constructor(anyFallback: AnyFallback) {
    this.#anyFallback = anyFallback
  }

  lower(shape: Shape): Lowered {
    inferType(shape)
    this.#takeLosses(shape)
    const nullable = this.#takeNull(shape)
    const alternatives = [...shape.alternatives]
    const chosen = shape.enum === undefined ? undefined : this.#chooseEnum(shape, shape.enum, alternatives)
    const type = chosen?.type ?? this.#chooseType(shape, alternatives)
    const description = composeDescription({
      text: shape.description ?? this.#takeTitle(shape),
      alternatives,
      nullable,
      notes: [...shape.notes],
    })
    const extensions = shape.extensions
    if (type === undefined) return { schema: { ...this.#anything(), ...extensions }, description, nullable }
    const enumeration = chosen?.values === undefined ? {} : { enum: chosen.values }
    return {
      schema: { type, ...this.#membersOf(type, shape), ...enumeration, ...extensions },
      description,
      nullable,
    }
  }

  /** `properties` and `required` of an object; also of the root, whose properties are parameters. */
  members(shape: Shape): readonly LoweredMember[] {
    const members: LoweredMember[] = []
    for (const [name, property] of shape.properties) {
      const required = shape.required.has(name)
      if (property.never) {
        this.lose(
          { pointer: property.pointer, keyword: 'properties' },
          required ? 'unrepresentable' : 'dropped',
        )
        continue
      }
      const lowered = this.lower(property)
      members.push({ name, lowered, required: required && !lowered.nullable })
    }
    return members
  }

  lose(from: Origin, severity: LossSeverity): void {
    this.losses.push({ ...from, severity })
  }

  /** What stands for a value of which nothing is known. */
  anything(): Lowered {
    return { schema: this.#anything(), description: undefined, nullable: false }
  }

  #takeLosses(shape: Shape): void {
    for (const loss of shape.losses) this.losses.push(loss)
    if (shape.types === undefined && !shape.reported) {
      this.lose({ pointer: shape.pointer, keyword: 'type' }, 'approximated')
    }
  }

  /** OpenTool has no null: the value becomes optional. */
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

  /** Values of one scalar type stay; others are listed in the text, or left out if they are structured. */
  #chooseEnum(shape: Shape, written: JsonArray, alternatives: string[]): Chosen | undefined {
    const values = written.filter((value) => value !== null && acceptsType(shape, value))
    const [first, ...more] = widestTypes(values.map(typeOfValue))
    if (first === undefined || first === 'null') {
      // Null alone was taken already.
      if (!written.includes(null)) this.lose(shape.enumFrom, 'unrepresentable')
      return undefined
    }
    if (more.length > 0) {
      this.lose(shape.enumFrom, 'approximated')
      alternatives.push(...values.slice(0, MOST_LISTED).map((value) => wordsOf(JSON.stringify(value))))
      return { type: first, values: undefined }
    }
    if (first !== 'object' && first !== 'array') return { type: first, values }
    this.lose(shape.enumFrom, 'dropped')
    return { type: first, values: undefined }
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
    const properties: Record<string, OpenToolSchema> = {}
    const optional = new Set<string>()
    for (const { name, lowered, required } of this.members(shape)) {
      setMember(properties, name, withDescription(lowered))
      if (!required) optional.add(name)
    }
    const required = [...shape.required].filter((name) => !optional.has(name))
    return { properties, ...(required.length === 0 ? {} : { required }) }
  }

  #itemsOf(shape: Shape): OpenToolSchema {
    if (shape.items !== undefined) return withDescription(this.lower(shape.items))
    this.lose({ pointer: childPointer(shape.pointer, 'items'), keyword: 'items' }, 'approximated')
    return this.#anything()
  }

  #anything(): OpenToolValueSchema {
    return this.#anyFallback === 'string' ? { type: 'string' } : { type: 'object', properties: {} }
  }
}

const MOST_LISTED = 20

interface Chosen {
  readonly type: OpenToolType
  readonly values: JsonArray | undefined
}

export interface LoweredMember {
  readonly name: string
  readonly lowered: Lowered
  readonly required: boolean
}

export function withDescription({ schema, description }: Lowered): OpenToolValueSchema {
  const { type, ...rest } = schema
  return { type, ...(description === undefined ? {} : { description }), ...rest }
}
