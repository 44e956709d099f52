/**
 * Nodes for the TypeScript types of JSON values, with their unions and intersections. `from-schema.ts` makes the nodes,
 * `print-type.ts` writes them. Equal types share a node, so that a type which occurs in many tools is written once.
 * Invariant: a union accepts every value of its options, and an intersection every value that all of its parts accept; where
 * the exact type would be too large for a compiler, the result accepts more, and `onWiden` says so.
 */

export type Primitive = 'string' | 'number' | 'boolean' | 'null'

export interface TypeMember {
  readonly name: string
  readonly type: TypeNode
  readonly isOptional: boolean
  /** Lines of the comment; empty without one. */
  readonly doc: readonly string[]
}

export interface ObjectNode {
  readonly id: number
  readonly kind: 'object'
  readonly members: readonly TypeMember[]
  /** Type of members with other names; absent if the schema says nothing about them or forbids them. */
  readonly index: TypeNode | undefined
  /** Whether members with other names are forbidden. */
  readonly isClosed: boolean
  /** Suggested name of the type, from its schema or from the member that has it. Equal types with different suggestions are one node. */
  readonly title: string | undefined
}

/** A schema that contains itself. */
export interface Definition {
  readonly name: string
  type: TypeNode
}

export type TypeNode =
  | { readonly id: number; readonly kind: 'any' | 'never' }
  | { readonly id: number; readonly kind: 'primitive'; readonly name: Primitive }
  | { readonly id: number; readonly kind: 'literal'; readonly value: string | number | boolean }
  | { readonly id: number; readonly kind: 'array'; readonly item: TypeNode }
  | {
      readonly id: number
      readonly kind: 'tuple'
      readonly items: readonly TypeNode[]
      /** Number of items that every value has. */
      readonly required: number
      readonly rest: TypeNode | undefined
    }
  | ObjectNode
  | { readonly id: number; readonly kind: 'union'; readonly options: readonly TypeNode[] }
  | { readonly id: number; readonly kind: 'all'; readonly parts: readonly TypeNode[] }
  | { readonly id: number; readonly kind: 'ref'; readonly definition: Definition }

type Parts<Node> = Node extends TypeNode ? Omit<Node, 'id'> : never

const MAX_OPTIONS = 500
/** Intersections up to this size are multiplied out; larger ones are left to the compiler. */
const MAX_PRODUCT = 64

/** Called with the reason when a type accepts more than its schema. */
type Widen = (why: string) => void

export class TypeTable {
  readonly #nodes = new Map<string, TypeNode>()
  readonly #refs = new Map<Definition, TypeNode>()
  #nextId = 0
  readonly any = this.#keep('any', { kind: 'any' })
  readonly never = this.#keep('never', { kind: 'never' })

  primitive(name: Primitive): TypeNode {
    return this.#keep(name, { kind: 'primitive', name })
  }

  literal(value: string | number | boolean): TypeNode {
    return this.#keep(`=${JSON.stringify(value)}`, { kind: 'literal', value })
  }

  array(item: TypeNode): TypeNode {
    return this.#keep(`[]${item.id}`, { kind: 'array', item })
  }

  tuple(items: readonly TypeNode[], required: number, rest: TypeNode | undefined): TypeNode {
    const key = `[${items.map(({ id }) => id)};${required};${rest?.id ?? ''}`
    return this.#keep(key, { kind: 'tuple', items, required, rest })
  }

  object(parts: Omit<ObjectNode, 'id' | 'kind'>): TypeNode {
    const { members, index, isClosed } = parts
    const written = members.map(({ name, type, isOptional, doc }) => [name, type.id, isOptional, doc])
    return this.#keep(`{${JSON.stringify([written, index?.id, isClosed])}`, { kind: 'object', ...parts })
  }

  ref(definition: Definition): TypeNode {
    const known = this.#refs.get(definition)
    if (known !== undefined) return known
    const node = this.#make({ kind: 'ref', definition })
    this.#refs.set(definition, node)
    return node
  }

  union(options: readonly TypeNode[], onWiden: Widen): TypeNode {
    const kept = new Set(options.flatMap((option) => (option.kind === 'union' ? option.options : [option])))
    kept.delete(this.never)
    if (kept.has(this.any)) return this.any
    if (kept.has(this.literal(true)) && kept.has(this.literal(false))) kept.add(this.primitive('boolean'))
    for (const option of kept)
      if (option.kind === 'literal' && kept.has(this.#primitiveOf(option.value))) kept.delete(option)
    const [first = this.never] = kept
    if (kept.size < 2) return first
    if (kept.size > MAX_OPTIONS) {
      onWiden(`more than ${MAX_OPTIONS} alternatives`)
      const wider = [...kept].map((each) => (each.kind === 'literal' ? this.#primitiveOf(each.value) : each))
      return new Set(wider).size > MAX_OPTIONS ? this.any : this.union(wider, onWiden)
    }
    const all = [...kept]
    return this.#keep(`|${all.map(({ id }) => id)}`, { kind: 'union', options: all })
  }

  intersect(left: TypeNode, right: TypeNode, onWiden: Widen): TypeNode {
    if (left === right || right.kind === 'any' || left.kind === 'never') return left
    if (left.kind === 'any' || right.kind === 'never') return right
    const [lefts, rights] = [optionsOf(left), optionsOf(right)]
    if ((lefts.length > 1 || rights.length > 1) && productOf(lefts, rights) <= MAX_PRODUCT) {
      const each = lefts.flatMap((one) => rights.map((other) => this.intersect(one, other, onWiden)))
      return this.union(each, onWiden)
    }
    if (isChoice(left) || isChoice(right)) return this.#all(left, right, onWiden)
    return this.#intersectPlain(left, right, onWiden)
  }

  #intersectPlain(left: TypeNode, right: TypeNode, onWiden: Widen): TypeNode {
    if (left.kind === 'literal') return this.#accepts(right, left.value) ? left : this.never
    if (right.kind === 'literal') return this.#accepts(left, right.value) ? right : this.never
    if (left.kind === 'object' && right.kind === 'object') return this.#merge(left, right, onWiden)
    if (left.kind === 'array' && right.kind === 'array')
      return this.array(this.intersect(left.item, right.item, onWiden))
    const isList = (node: TypeNode) => node.kind === 'array' || node.kind === 'tuple'
    if (isList(left) && isList(right)) return left.kind === 'tuple' ? left : right
    return this.never
  }

  #accepts(node: TypeNode, value: string | number | boolean): boolean {
    return node.kind === 'primitive' && node.name === typeof value
  }

  #primitiveOf(value: string | number | boolean): TypeNode {
    return this.primitive(
      typeof value === 'string' ? 'string' : typeof value === 'number' ? 'number' : 'boolean',
    )
  }

  #merge(left: ObjectNode, right: ObjectNode, onWiden: Widen): TypeNode {
    const others = new Map(right.members.map((member) => [member.name, member]))
    const members = left.members.map((member): TypeMember => {
      const other = others.get(member.name)
      if (other === undefined) return member
      others.delete(member.name)
      return {
        name: member.name,
        type: this.intersect(member.type, other.type, onWiden),
        isOptional: member.isOptional && other.isOptional,
        doc: member.doc.length === 0 ? other.doc : member.doc,
      }
    })
    return this.object({
      members: [...members, ...others.values()],
      index:
        left.index === undefined || right.index === undefined
          ? (left.index ?? right.index)
          : this.intersect(left.index, right.index, onWiden),
      isClosed: left.isClosed || right.isClosed,
      title: left.title ?? right.title,
    })
  }

  /** The compiler would multiply several unions out, so at most one part may be a union or refer to one. */
  #all(left: TypeNode, right: TypeNode, onWiden: Widen): TypeNode {
    const parts = [...new Set([left, right].flatMap((node) => (node.kind === 'all' ? node.parts : [node])))]
    const plain = parts.filter((part) => !isChoice(part))
    const [choice, ...more] = parts.filter(isChoice)
    if (more.length > 0) onWiden('alternatives of alternatives')
    const [first, ...rest] = plain
    const merged = rest.reduce<TypeNode | undefined>(
      (sum, part) => (sum === undefined ? part : this.intersect(sum, part, onWiden)),
      first,
    )
    if (choice === undefined || merged === undefined) return merged ?? choice ?? this.any
    // A union of values other than objects has been multiplied out already, or is too long for that.
    if (merged.kind !== 'object')
      return choice.kind === 'union' ? this.#filtered(choice, merged, onWiden) : choice
    return this.#keep(`&${merged.id},${choice.id}`, { kind: 'all', parts: [merged, choice] })
  }

  #filtered(choice: TypeNode, by: TypeNode, onWiden: Widen): TypeNode {
    return this.union(
      optionsOf(choice).map((option) => this.intersect(option, by, onWiden)),
      onWiden,
    )
  }

  #keep(key: string, parts: Parts<TypeNode>): TypeNode {
    const known = this.#nodes.get(key)
    if (known !== undefined) return known
    const node = this.#make(parts)
    this.#nodes.set(key, node)
    return node
  }

  #make(parts: Parts<TypeNode>): TypeNode {
    this.#nextId += 1
    return { id: this.#nextId, ...parts }
  }
}

export function optionsOf(node: TypeNode): readonly TypeNode[] {
  return node.kind === 'union' ? node.options : [node]
}

/** Whether the node is a union, or may refer to one. */
function isChoice({ kind }: TypeNode): boolean {
  return kind === 'union' || kind === 'ref' || kind === 'all'
}

/** Number of options and members in the multiplied-out intersection. */
function productOf(lefts: readonly TypeNode[], rights: readonly TypeNode[]): number {
  return sizeOf(lefts) * rights.length + sizeOf(rights) * lefts.length
}

function sizeOf(options: readonly TypeNode[]): number {
  return options.reduce((sum, option) => sum + (option.kind === 'object' ? 1 + option.members.length : 1), 0)
}
