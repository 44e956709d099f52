import { type ClientOptions, readOptions } from './client-options.ts'
import { ColletClient } from './collet-client.ts'

/** A client for the server at `url`. Sends nothing yet; throws `CallFailure` of class `config` on bad options. */
export function connect(url: string | URL, options: ClientOptions = {}): ColletClient {
  return new ColletClient(readOptions(url, options))
}
