/** The part of the package that the tests use; it has no types of its own. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  // biome-ignore lint/style/noDefaultExport: that is how the package exports it
  export default class Provider {
    constructor(issuer: string, configuration: object)
    callback(): RequestListener
    on(event: string, listener: (...facts: never[]) => void): void
  }
}
