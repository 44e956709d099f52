/** A description of the shape of Stripe's: hundreds of operations whose answers all reach the same half megabyte of objects. */
export function largeService(operations = 452, objects = 800): object {
  const reference = (at: number) => ({ $ref: `#/components/schemas/thing${at % objects}` })
  const schemas = Object.fromEntries(
    Array.from({ length: objects }, (_unused, at) => [
      `thing${at}`,
      {
        type: 'object',
        description: `A thing of the kind ${at}, with what belongs to it and what it belongs to.`,
        required: ['id', 'object'],
        properties: {
          id: { type: 'string', maxLength: 5_000, description: 'Unique identifier of the thing.' },
          object: {
            type: 'string',
            enum: [`thing${at}`],
            description: 'What it is, for those who read many.',
          },
          amount: { type: 'integer', description: 'In the smallest unit of the currency, as everywhere.' },
          url: { type: 'string', pattern: `^/v1/things${at}` },
          owner: {
            anyOf: [{ type: 'string', maxLength: 5_000 }, reference(at * 7 + 1), reference(at * 3 + 2)],
          },
          parts: { type: 'array', items: { oneOf: [reference(at * 5 + 3), reference(at + 1)] } },
          metadata: { type: 'object', additionalProperties: { type: 'string', maxLength: 500 } },
        },
      },
    ]),
  )
  const paths = Object.fromEntries(
    Array.from({ length: operations }, (_unused, at) => [
      `/v1/things${at}/{id}`,
      {
        get: {
          operationId: `GetThing${at}`,
          description: `Gives a thing of the kind ${at}.`,
          parameters: [
            { name: 'id', in: 'path', required: true, schema: { type: 'string' }, description: 'Which.' },
          ],
          responses: {
            200: { description: 'It.', content: { 'application/json': { schema: reference(at) } } },
          },
        },
      },
    ]),
  )
  return {
    openapi: '3.0.0',
    info: { title: 'A large service', version: '1' },
    servers: [{ url: 'https://large.example' }],
    paths,
    components: { schemas },
  }
}
