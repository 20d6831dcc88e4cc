<?php
/* Included by chains.php. */
return Chains\spin(500);
