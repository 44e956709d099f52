@rem The same as ./collet, for Windows.
@node "%~dp0bin\collet.js" %*
