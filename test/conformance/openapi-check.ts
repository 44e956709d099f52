import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { otcOpenApi } from '#protocols/otc/routes'
import { atPointer } from './vector-match.ts'

/** Checks answers against an OpenAPI document: path, method, status, and the JSON body's schema. */
export class DocumentCheck<Document extends { readonly components: object }> {
  readonly document: Document
  readonly #ajv = new Ajv2020({ strict: true, strictRequired: false, validateFormats: false })
  readonly #validators = new Map<string, ValidateFunction>()

  constructor(document: Document) {
    this.document = document
    this.#ajv.addKeyword({ keyword: 'components', schemaType: 'object' })
    this.#ajv.addSchema({ $id: 'openapi', components: this.document.components })
  }

  /** Compiles one schema of the document; throws when it is not valid JSON Schema 2020-12. */
  compile(schema: unknown): ValidateFunction {
    const key = JSON.stringify(schema)
    const known = this.#validators.get(key)
    if (known !== undefined) return known
    const validate = this.#ajv.compile(JSON.parse(key.replaceAll('"#/components/', '"openapi#/components/')))
    this.#validators.set(key, validate)
    return validate
  }

  /** Differences between an answer and the document, one sentence each. */
  findings(answer: { method: string; path: string; status: number; text: string }): readonly string[] {
    const path = answer.path
      .replaceAll(/:(\w+)/g, '{$1}')
      .replaceAll('~', '~0')
      .replaceAll('/', '~1')
    const where = `/paths/${path}/${answer.method.toLowerCase()}/responses/${answer.status}`
    const response = atPointer(this.document, where)
    if (response === undefined) return [`${answer.method} ${answer.path} does not document ${answer.status}`]
    const json = atPointer(this.resolve(response.value), '/content/application~1json/schema')
    if (json === undefined) return []
    const validate = this.compile(json.value)
    if (validate(JSON.parse(answer.text))) return []
    return [`${where}: ${this.#ajv.errorsText(validate.errors)}: ${answer.text}`]
  }

  /** Follows a reference to `components`, if the node is one. */
  resolve(node: unknown): unknown {
    const { value: reference } = atPointer(node, '/$ref') ?? {}
    return typeof reference === 'string' ? atPointer(this.document, reference.slice(1))?.value : node
  }

  /** References that lead to no component. */
  brokenReferences(): readonly string[] {
    const references = JSON.stringify(this.document).matchAll(/"\$ref":"#([^"]+)"/g)
    return [...references].flatMap(([, pointer = '']) =>
      atPointer(this.document, pointer) === undefined ? [pointer] : [],
    )
  }
}

/** Checks answers of the OTC routes. */
export class OpenApiCheck extends DocumentCheck<ReturnType<typeof otcOpenApi>> {
  constructor() {
    super(otcOpenApi('0.0.0-test'))
  }
}
