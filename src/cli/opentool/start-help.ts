import { DEFAULT_PORT } from '#protocols/opentool/wire'
import { VERSION } from '#server/protocol-routes'

/** Display name and command of the guidelines (OTS-73). */
const NAME = 'COLLET'
const COMMAND = 'collet opentool'

/** The help that the guidelines lay down, line by line (OTS-71). */
export const START_HELP = `${NAME} OpenTool Server CLI (${VERSION}) - OpenTool Server implement by ${NAME}.

Usage: ${COMMAND} <command> [options]

Available commands:

Command: start
  -v, --version     Version that /version answers, Default: as the config says, or ${VERSION}
  -t, --toolPort    Port to listen on, Default: ${DEFAULT_PORT}
  -k, --apiKeys     API key, may be repeated: --apiKeys KEY_A --apiKeys KEY_B, Default: COLLET_OPENTOOL_KEYS, or none
      --host        Address to listen on, Default: as the config says, or 127.0.0.1
      --config      Config with the tools, Default: COLLET_CONFIG, or collet.config.{ts,js,mjs,json} here
      --store       sqlite:PATH or memory:, Default: as the config says
      --stream      Serve /streamCall too, Default: as the config says, or no
      --allowStop   Serve /stop too, if there are keys, Default: no

Global options:

-h, --help    Show help information`
