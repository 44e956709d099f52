// After `npm ci` in a checkout. npm itself may run on an older Node: its page of warnings about that is turned off in .npmrc, and this is what it comes to.
const [, version = '', major = ''] =
  /\bnode\/v((\d+)[\d.]*)/.exec(process.env.npm_config_user_agent ?? '') ?? []
if (Number(major) < 24) {
  process.stderr.write(
    `npm runs on Node ${version}, and Collet needs Node 24: "npm run" uses the one that was just installed here; outside of it, install Node 24.\n`,
  )
}
