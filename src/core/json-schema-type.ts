import type { JsonArray, JsonObject, JsonValue } from './json.ts'

/**
 * The type of the values a JSON Schema written in place accepts, for the keywords that map onto types:
 * `const`, `enum`, `type`, `properties` with `required`, and `items`. Anything else is any JSON value.
 */
export type TypeOfSchema<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly type: infer T }
      ? string extends T
        ? JsonValue
        : TypeNamed<T extends readonly (infer Each)[] ? Each : T, S>
      : JsonValue

type TypeNamed<T, S> = T extends 'string'
  ? string
  : T extends 'number' | 'integer'
    ? number
    : T extends 'boolean'
      ? boolean
      : T extends 'null'
        ? null
        : T extends 'array'
          ? ArrayType<S>
          : T extends 'object'
            ? ObjectType<S>
            : JsonValue

type ArrayType<S> = S extends { readonly prefixItems: unknown }
  ? JsonArray
  : S extends { readonly items: infer I }
    ? readonly TypeOfSchema<I>[]
    : JsonArray

type ObjectType<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P & RequiredNames<S>]: TypeOfSchema<P[K]> } & {
      readonly [K in Exclude<keyof P, RequiredNames<S>>]?: TypeOfSchema<P[K]>
    }
  : JsonObject

type RequiredNames<S> = S extends { readonly required: readonly (infer N)[] } ? N : never
